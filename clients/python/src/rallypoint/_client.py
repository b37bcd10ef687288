"""Which service to call, and as whom."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import re
import threading
from collections.abc import Iterator
from types import TracebackType

from rallypoint import _background, _checks, _methods, _times
from rallypoint._connection import Connection
from rallypoint._given_up import given_back
from rallypoint._servers import PathLike, Servers, Tls
from rallypoint._tasks import MAX_PERMITS
from rallypoint._times import Seconds
from rallypoint._token import Token
from rallypoint.errors import RallypointError
from rallypoint.v1 import resource_pb2

log = logging.getLogger("rallypoint")

DEFAULT_SERVER = "http://127.0.0.1:50051"
_PRINTABLE = r"[ -~]+"
# How long a client that is closed, and a program that ends, wait for the background thread, in
# seconds.
_LAST_MOMENT = 2.0


class BaseClient:
    """What `Client` and `AsyncClient` have in common."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        token_file: PathLike | None = None,
        tls: Tls | None = None,
        namespace: str | None = None,
        caller: str | None = None,
        retry_timeout: Seconds = 30.0,
        plain_text_token: bool = False,
    ) -> None:
        """`server`: a URL, or several with commas between them; any replica takes any call.

        What is left out is taken from the environment, as the command line does it:
        `RALLYPOINT_SERVER`, `RALLYPOINT_AUTH_TOKEN`, `RALLYPOINT_AUTH_TOKEN_FILE`,
        `RALLYPOINT_TLS_CA`, `RALLYPOINT_TLS_CERT`, `RALLYPOINT_TLS_KEY`, `RALLYPOINT_NAMESPACE`
        and `RALLYPOINT_PLAIN_TEXT_TOKEN`. Nothing is connected before the first call.

        `retry_timeout`: for so many seconds a call is repeated, and a stream opened again, while
        the service cannot be reached. `caller`: a name for the log; left out, that of the account
        that runs the program, if the environment has it.
        """
        environment = os.environ.get
        if server is not None and not isinstance(server, str):
            raise TypeError(f"server: give an address like {DEFAULT_SERVER}, not {server!r}")
        if tls is not None and not isinstance(tls, Tls):
            raise TypeError(f"tls: give Tls(ca=…), not {tls!r}")
        if tls is None:
            keys = (environment(f"RALLYPOINT_TLS_{name}") for name in ("CA", "CERT", "KEY"))
            tls = _environment_tls(*(key or None for key in keys), server=server)
        addresses = server or environment("RALLYPOINT_SERVER") or DEFAULT_SERVER
        servers = Servers(addresses, tls, "server" if server else "RALLYPOINT_SERVER")
        if token is not None and token_file is not None:
            raise ValueError("token_file: give it or token, not both")
        if token is None and token_file is None:
            token = environment("RALLYPOINT_AUTH_TOKEN") or None
            token_file = None if token else environment("RALLYPOINT_AUTH_TOKEN_FILE") or None
        secret = Token(token, token_file) if token is not None or token_file is not None else None
        is_allowed = _checks.flag(plain_text_token, "plain_text_token") or _is_on(
            environment("RALLYPOINT_PLAIN_TEXT_TOKEN")
        )
        if secret is not None and not is_allowed:
            servers.check_unreadable()
        metadata = {
            "rallypoint-caller": _account() if caller is None else caller,
            "rallypoint-namespace": namespace or environment("RALLYPOINT_NAMESPACE") or None,
        }
        retry_seconds = _times.seconds(retry_timeout, "retry_timeout")
        self._servers = servers
        self._pid = os.getpid()
        self._connection = Connection(servers, secret, _checked(metadata), retry_seconds)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._servers.text!r})"

    @property
    def server(self) -> str:
        """The address, or the addresses."""
        return self._servers.text

    def connection(self) -> Connection:
        """For the other modules of this package."""
        if not self._is_here():
            raise RallypointError(
                f"this client was made in process {self._pid}, before a fork; make one in this one"
            )
        return self._connection

    def _is_here(self) -> bool:
        return self._pid == os.getpid()

    def _has_others(self) -> bool:
        """Whether the background thread may be at work for it, and can be waited for."""
        return self._is_here() and _background.is_running() and not _background.is_here()

    def _close(self) -> None:
        if self._is_here():  # and not in a process that was forked, which shares the sockets
            self._servers.close()


def _environment_tls(
    ca: str | None, cert: str | None, key: str | None, *, server: str | None
) -> Tls:
    # An address that is given counts more than an environment that is for another one.
    address = server or os.environ.get("RALLYPOINT_SERVER") or DEFAULT_SERVER
    return Tls(ca, cert, key) if "https://" in address else Tls()


def _account() -> str | None:
    # As the command line finds it; containers and cron do not always set USER.
    names = (os.environ.get(variable) for variable in ("USER", "LOGNAME"))
    name = next(filter(None, names), None)
    return name if name and re.fullmatch(_PRINTABLE, name) else None


def _is_on(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true", "yes", "on")


def _checked(metadata: dict[str, str | None]) -> dict[str, str]:
    for key, value in metadata.items():
        name = key.removeprefix("rallypoint-")
        if value is not None and not re.fullmatch(_PRINTABLE, _checks.text(value, name)):
            raise ValueError(f"{name}: {value!r} is not printable ASCII")
    return {key: value for key, value in metadata.items() if value is not None}


class Client(BaseClient):
    """Which service to call, and as whom. Schedulers and locks may share one."""

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and what still uses it. What was given up before is given back.

        That takes half a second at most, and 2 s when a callback of a future waits meanwhile.
        """
        try:
            if self._has_others():
                _give_back()
        finally:  # also when Ctrl-C comes meanwhile
            self._close()

    def create_resource(
        self, name: str, capacity: int = 1, *, max_hold: Seconds | None = None
    ) -> bool:
        """Defines something to lock; False: it was there, with these settings.

        `tenant/*` stands for every name below it. `capacity`: permits for `shared`.
        """
        return _background.run(_create_resource(self, name, capacity, max_hold))

    def delete_resource(self, name: str) -> None:
        """Deletes a resource that nobody uses."""
        _background.run(_delete_resource(self, name))


class AsyncClient(BaseClient):
    """As `Client`, for asyncio."""

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection, and what still uses it. What was given up before is given back.

        That takes half a second at most, and 2 s when a callback of a future waits meanwhile.
        """
        try:
            if self._has_others():
                with _last_moment():
                    async with asyncio.timeout(_LAST_MOMENT):
                        await _background.afinish(given_back())
        finally:  # also when this is cancelled meanwhile
            self._close()

    async def create_resource(
        self, name: str, capacity: int = 1, *, max_hold: Seconds | None = None
    ) -> bool:
        """As `Client.create_resource`."""
        return await _background.arun(_create_resource(self, name, capacity, max_hold))

    async def delete_resource(self, name: str) -> None:
        """Deletes a resource that nobody uses."""
        await _background.arun(_delete_resource(self, name))


async def _create_resource(
    client: BaseClient, name: str, capacity: int, max_hold: Seconds | None
) -> bool:
    _checks.text(name, "name")
    permits = _checks.whole(capacity, "capacity", 1, MAX_PERMITS)
    settings = resource_pb2.ResourceSettings(capacity=permits)
    if max_hold is not None:
        settings.max_hold.CopyFrom(_times.duration(max_hold, "max_hold"))
    request = resource_pb2.CreateResourceRequest(name=name, settings=settings)
    made = await client.connection().call(_methods.CREATE_RESOURCE, request)
    return not made.already_exists


async def _delete_resource(client: BaseClient, name: str) -> None:
    request = resource_pb2.DeleteResourceRequest(name=_checks.text(name, "name"))
    await client.connection().call(_methods.DELETE_RESOURCE, request)


@contextlib.contextmanager
def _last_moment() -> Iterator[None]:
    """Around what waits so long for the background thread, which a callback may keep for ever."""
    try:
        yield
    except TimeoutError:
        log.warning(
            "the background thread has not answered for %g s, as when a callback of a future "
            "waits; what was being given back (at least %d) ends with its lease, or when it has "
            "been idle for long",
            _LAST_MOMENT,
            len(_background.unattended()),
        )


def _give_back() -> None:
    with _last_moment():
        _background.finish(given_back(), within=_LAST_MOMENT)


_lock = threading.Lock()
_default: Client | None = None


def client_of(client: BaseClient | str | None) -> BaseClient:
    """What was given, or one for an address, or for None the one that the environment names."""
    global _default
    if isinstance(client, BaseClient):
        return client
    if client is not None:
        if not isinstance(client, str):
            raise TypeError(f"client: give a Client or an address, not {client!r}")
        return Client(client)
    with _lock:
        if _default is None or not _default._is_here():
            _default = Client()
        return _default


def _at_exit() -> None:
    """At the end of a program: what Ctrl-C has left, such as a scheduler that was being opened.

    It is waited for once, for all clients.
    """
    try:
        if _background.is_running() and not _background.is_here():
            _give_back()
    finally:
        if _default is not None:
            _default._close()


atexit.register(_at_exit)
