"""The servers a client may use: one at a time, and the next one when it cannot be reached.

Any replica accepts any call, so it does not matter which.
"""

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from rallypoint._version import __version__
from rallypoint.errors import CallError

# After what silence a server is asked whether it is there, and how long it may take to answer: long
# enough for a large message that is sent before it on a slow connection, and short enough that a
# connection that is dead is given up before a lock counts as lost that it cannot renew.
_KEEPALIVE_MS, _KEEPALIVE_TIMEOUT_MS = 2_000, 5_000
_CONNECT_TIMEOUT_MS = 5_000
_RECONNECT_MS, _MAX_RECONNECT_MS = 100, 1_000
# On a connection. Servers take a thousand at a time and proxies a hundred, with the calls beside
# them; what is beyond that waits without a word, and so would the renewals of locks.
_MAX_STREAMS = 64
# A task as it was submitted, with its result.
_MAX_MESSAGE_BYTES = 16 << 20

PathLike = str | os.PathLike[str]


class Tls(NamedTuple):
    """Whom to trust at https:// addresses and who to be there: files in PEM.

    Without `ca` the public authorities are trusted. The files are read again when a connection
    has failed, or a server no longer takes the certificate of the caller, so certificates may be
    renewed while a program runs.
    """

    ca: PathLike | None = None
    cert: PathLike | None = None
    key: PathLike | None = None

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Authorities, key and certificate. Raises ValueError when they cannot be used."""
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls: a certificate needs its key; give both cert and key")
        return _pem("ca", self.ca), _pem("key", self.key), _pem("cert", self.cert)


def _pem(name: str, path: PathLike | None) -> bytes | None:
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"tls.{name}: give a path, not {path!r}")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ValueError(f"tls.{name}: {path} cannot be read: {error}") from None
    if b"-----BEGIN " not in content:
        raise ValueError(f"tls.{name}: {path} is no file in PEM")
    return content


class _Address(NamedTuple):
    """Where a server is, and how it is reached."""

    target: str
    host: str
    is_tls: bool

    def is_here(self) -> bool:
        """What is sent there stays on this machine."""
        return re.fullmatch(_LOOPBACK, self.host) is not None


# Compiled at their first use, since an import is to be short.
_URL = (
    r"(?:(?P<scheme>https?)://)?(?P<host>\[[0-9a-f:.]+\]|[^\s/:@?#\[\]]+)(?::(?P<port>\d{1,5}))?"
    r"(?P<path>/.*)?"
)
_PORT_ALONE = r"(https?://)?:?(\d{1,5})/?"
_LOOPBACK = r"localhost|127(\.\d{1,3}){3}|\[::1\]"


def _address(text: str, argument: str) -> _Address:
    if "@" in text:  # it is not repeated: there may be a password in it
        raise ValueError(f"{argument}: an address has no user and no password")
    if alone := re.fullmatch(_PORT_ALONE, text, re.IGNORECASE):
        meant = f"{alone[1] or 'http://'}127.0.0.1:{alone[2]}"
        raise ValueError(f"{argument}: {text!r} is a port, and no address; write {meant}")
    url = re.fullmatch(_URL, text, re.IGNORECASE)
    if url is None:
        raise ValueError(f"{argument}: {text!r}: an address is like http://127.0.0.1:50051")
    if url["path"] not in (None, "/"):
        raise ValueError(f"{argument}: {text!r}: an address has no path; leave out {url['path']}")
    host, is_tls = url["host"].lower(), (url["scheme"] or "").lower() == "https"
    if url["port"] is None and not is_tls:
        raise ValueError(f"{argument}: {text!r} has no port; the usual one is 50051")
    if int(url["port"] or 443) > 65_535:
        raise ValueError(f"{argument}: {text!r}: a port is at most 65535")
    return _Address(f"{host}:{url['port'] or 443}", host, is_tls)


class Transport:
    """One connection, and how many streams are open on it."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._unary: dict[str, Callable[..., Any]] = {}
        self._streams: dict[str, Callable[..., Any]] = {}
        self.open_streams = 0

    def unary(self, path: str) -> Callable[..., Any]:
        """A method that answers once: bytes to a future of bytes."""
        if path not in self._unary:
            self._unary[path] = self._channel.unary_unary(path).future
        return self._unary[path]

    def open(self, path: str, payload: bytes, metadata: tuple[tuple[str, str], ...]) -> Any:
        """Calls a method that answers with a stream: an iterator of bytes, until `end`."""
        if path not in self._streams:
            self._streams[path] = self._channel.unary_stream(path)
        call = self._streams[path](payload, metadata=metadata)
        self.open_streams += 1
        return call

    def end(self) -> None:
        """One of the streams has ended."""
        self.open_streams -= 1

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()


class Channel:
    """The connections to one server, with the certificates that there were when it was made.

    There is one, and one more for each so many streams that are open at the same time.
    """

    def __init__(self, address: _Address, tls: Tls, options: list[tuple[str, Any]]) -> None:
        self._address, self._tls, self._options = address, tls, options
        self._pem = tls.read() if address.is_tls else None
        self._transports = [self._transport()]

    def _transport(self) -> Transport:
        target, options = self._address.target, self._options
        if self._pem is None:
            return Transport(grpc.insecure_channel(target, options))
        credentials = grpc.ssl_channel_credentials(*self._pem)
        return Transport(grpc.secure_channel(target, credentials, options))

    def unary(self, path: str) -> Callable[..., Any]:
        """A method that answers once: bytes to a future of bytes."""
        return self._transports[0].unary(path)

    def with_room(self) -> Transport:
        """A connection on which a stream can be opened."""
        for transport in self._transports:
            if transport.open_streams < _MAX_STREAMS:
                return transport
        self._transports.append(self._transport())
        return self._transports[-1]

    def renewed(self) -> "Channel | None":
        """Another one, if the files have other certificates by now."""
        if self._pem is None:
            return None
        try:
            is_same = self._tls.read() == self._pem
            return None if is_same else Channel(self._address, self._tls, self._options)
        except ValueError:  # being renewed; those before may still do
            return None

    def close(self) -> None:
        """Ends all calls."""
        for transport in self._transports:
            transport.close()


class Pick(NamedTuple):
    """The server that a call is made to, and the connection to it."""

    place: int
    channel: Channel


class Servers:
    """Channels to the servers, and which one is in use."""

    def __init__(self, addresses: str, tls: Tls, argument: str) -> None:
        """`argument`: the argument or the variable that says the addresses."""
        named = [text.strip() for text in addresses.split(",") if text.strip()]
        found = [_address(text, argument) for text in named]
        if not found:
            raise ValueError(f"{argument}: no address; one is like http://127.0.0.1:50051")
        if tls != Tls() and not any(address.is_tls for address in found):
            raise ValueError(f"tls: {addresses} is reached in plain text; write https://")
        if any(address.is_tls for address in found):
            tls.read()
        self.text = addresses
        self._addresses = found
        self._tls = tls
        self._channels: list[Channel] | None = None
        self._present = 0
        self._is_closed = False

    def check_unreadable(self) -> None:
        """Raises ValueError when others could read what is sent to one of them."""
        for address in self._addresses:
            if not address.is_tls and not address.is_here():
                raise ValueError(
                    f"token: it would be sent to {address.target} in plain text, for others to "
                    "read; write https://, or allow it where the network itself encrypts "
                    "(plain_text_token=True)"
                )

    def pick(self) -> Pick:
        """The server in use. Raises CallError when the client is closed."""
        if self._is_closed:
            raise CallError("CANCELLED", "the client is closed")
        if self._channels is None:
            self._channels = [self._channel(address) for address in self._addresses]
        return Pick(self._present, self._channels[self._present])

    def failed(self, pick: Pick) -> bool:
        """Uses the next server, if it has not been left already. Whether there is another one."""
        if self.was_renewed(pick):
            return True
        if self._present == pick.place:
            self._present = (pick.place + 1) % len(self._addresses)
        return len(self._addresses) > 1

    def was_renewed(self, pick: Pick) -> bool:
        """Whether other certificates are in use by now than those that a call was made with."""
        if self._channels is None or self._is_closed:
            return False
        if self._channels[pick.place] is pick.channel and (renewed := pick.channel.renewed()):
            self._channels[pick.place] = renewed
            pick.channel.close()  # what goes on there is called again
        return self._channels[pick.place] is not pick.channel

    @property
    def longest_silence(self) -> float:
        """Seconds; a call that lasted longer was made to a server that was there."""
        if len(self._addresses) == 1:
            # What stands before it gives up after a minute, usually, whether it is there or not.
            return 120.0
        return 2 * (_KEEPALIVE_MS + _KEEPALIVE_TIMEOUT_MS + _CONNECT_TIMEOUT_MS) / 1000

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed: whoever did that knows that its calls end."""
        return self._is_closed

    def close(self) -> None:
        """Ends all calls."""
        self._is_closed = True
        for channel in self._channels or ():
            channel.close()

    def _channel(self, address: _Address) -> Channel:
        options: list[tuple[str, Any]] = [
            ("grpc.primary_user_agent", f"rallypoint-python/{__version__}"),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            # Keep-alive waits for an answer to a ping that was sent before, by default a minute.
            ("grpc.http2.ping_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS),
            ("grpc.max_reconnect_backoff_ms", _MAX_RECONNECT_MS),
            ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            # Calls are repeated here, under their request ids.
            ("grpc.enable_retries", 0),
            # A connection of its own, which closing the channel ends.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if address.is_here():
            options.append(("grpc.enable_http_proxy", 0))
        return Channel(address, self._tls, options)
