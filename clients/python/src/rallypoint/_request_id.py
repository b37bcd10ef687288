"""Request ids: a call that is repeated under the same one has its effect once."""

import os


def new_request_id() -> str:
    """A random UUID. (The module `uuid` takes longer to import than the rest of this package.)"""
    bits = bytearray(os.urandom(16))
    bits[6] = bits[6] & 0x0F | 0x40  # version 4
    bits[8] = bits[8] & 0x3F | 0x80  # variant of RFC 9562
    text = bits.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
