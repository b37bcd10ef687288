"""The token by which a server knows its caller. It is in no error and no `repr`."""

import contextlib
import os
import time

from rallypoint import _checks

# For how long what was read counts. Whoever renews a token leaves more time than that.
_READ_INTERVAL = 10.0


class Token:
    """A token, or a file whose first line is one."""

    def __init__(self, token: str | None, path: str | os.PathLike[str] | None) -> None:
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"token_file: give a path, not {path!r}")
        self._path = path
        self._read_at = time.monotonic()
        self._bearer = (
            _bearer(_checks.text(token, "token"), "token") if token is not None else self._read()
        )

    def __repr__(self) -> str:
        return "Token(…)"

    def bearer(self) -> str:
        """What is sent with a call. While the file cannot be read, what was read before counts."""
        if self._path is not None and time.monotonic() - self._read_at >= _READ_INTERVAL:
            self._read_at = time.monotonic()
            with contextlib.suppress(ValueError):
                self._bearer = self._read()
        return self._bearer

    def _read(self) -> str:
        assert self._path is not None
        try:
            with open(self._path, encoding="ascii") as file:
                line = file.readline()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"token_file: {self._path} cannot be read: {error}") from None
        return _bearer(line, f"token_file: {self._path}")


def _bearer(token: str, name: str) -> str:
    token = token.strip()
    if not token or not all("!" <= letter <= "~" for letter in token):
        raise ValueError(f"{name}: a token is printable ASCII without spaces")
    return f"Bearer {token}"
