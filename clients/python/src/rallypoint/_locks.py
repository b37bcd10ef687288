"""Locks, for `with` and for `async with`."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from rallypoint import _background, _claims, _times
from rallypoint._client import BaseClient, client_of
from rallypoint._tasks import Use, check_labels, uses
from rallypoint._times import Seconds
from rallypoint.errors import HoldLost, RallypointError
from rallypoint.v1 import resource_pb2


class Hold:
    """What a `with lock(…)` block holds. It is renewed in the background."""

    def __init__(self, held: _claims.HeldClaim) -> None:
        self._held = held

    def __repr__(self) -> str:
        state = f"lost: {self.lost}" if self.lost else "held"
        return f"<Hold of {', '.join(self.resources)}, token {self.token}, {state}>"

    @property
    def token(self) -> int:
        """The fencing token: higher than that of every earlier hold.

        Show it to whatever the lock protects, which refuses lower ones than it has seen: nothing
        else stops a process that was suspended, lost its hold, and goes on.
        """
        return self._held.claim.token

    @property
    def claim(self) -> int:
        """The number of the claim, as the command line shows it."""
        return self._held.claim.claim

    @property
    def resources(self) -> list[str]:
        """The names of what is held."""
        return [use.name for use in self._held.claim.resources]

    @property
    def lost(self) -> str | None:
        """Why it was lost; None: as far as is known, it is held."""
        return self._held.lease.lost

    def check(self) -> None:
        """Raises HoldLost if it was lost. Call it before each step that needs the lock."""
        if (why := self.lost) is not None:
            raise HoldLost(f"the hold of {', '.join(self.resources)} was lost: {why}")

    def when_lost(self, function: Callable[[str], None]) -> None:
        """Has a function called with the reason, on another thread. It must not wait."""
        _background.call(self._held.lease.when_lost, function)


class _Claiming:
    """What `lock` and `try_acquire` have in common."""

    def __init__(
        self,
        *resources: str | Use,
        owner: str | None = None,
        reason: str = "",
        labels: Mapping[str, str] | None = None,
        lease: Seconds = 15.0,
        client: BaseClient | str | None = None,
    ) -> None:
        self._uses = uses(resources, "resources")
        self._owner, self._reason = owner, reason
        self._labels = check_labels(labels)
        if not 1 <= _times.seconds(lease, "lease") <= 3600:
            raise ValueError(f"lease: 1 s to 1 h, not {lease}")
        self._lease = _times.duration(lease, "lease")
        self._client = client_of(client)
        self._hold: Hold | None = None

    def __repr__(self) -> str:
        names = ", ".join(repr(use.name) for use in self._uses)
        return f"{type(self).__name__}({names})"

    async def _enter(self, owner: str) -> Hold | None:
        raise NotImplementedError

    async def _exit(self, error: BaseException | None) -> None:
        if self._hold is None:
            return
        held, self._hold = self._hold._held, None
        try:
            await held.release()
        except RallypointError as lost:
            # An error of the block counts more.
            if error is None:
                raise
            error.add_note(str(lost))

    def _take(self, hold: Hold | None) -> Hold | None:
        self._hold = hold
        return hold

    def _check_free(self) -> None:
        if self._hold is not None:
            raise RallypointError("this lock is in use; make one for each block: lock('…')")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _background.run(self._exit(error))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await _background.arun(self._exit(error))


class lock(_Claiming):
    """Holds one resource, or several at once, for a block.

    >>> with lock("orders") as hold:
    ...     print(hold.token)

    A name stands for the whole resource; `shared("name", permits)` for some of its permits. It
    waits in line, for `wait` seconds at most (LockTimeout). It is renewed until the block is left.
    When it was lost meanwhile, leaving the block raises HoldLost; `hold.check()` raises it before.

    `owner` does one thing after the other, by which the service finds circles of locks that wait
    for each other: by default this thread, or this task of asyncio. `reason` and `labels` are for
    people who see the queue. The resources exist before: `Client.create_resource`.
    """

    def __init__(
        self,
        *resources: str | Use,
        wait: Seconds | None = None,
        owner: str | None = None,
        reason: str = "",
        labels: Mapping[str, str] | None = None,
        lease: Seconds = 15.0,
        client: BaseClient | str | None = None,
    ) -> None:
        super().__init__(
            *resources, owner=owner, reason=reason, labels=labels, lease=lease, client=client
        )
        self._wait = None if wait is None else _times.duration(wait, "wait")

    async def _enter(self, owner: str) -> Hold:
        request = resource_pb2.AcquireRequest(
            resources=self._uses,
            owner=owner,
            reason=self._reason,
            labels=self._labels,
            lease=self._lease,
            wait=self._wait,
        )
        return Hold(await _claims.acquire(self._client.connection(), request))

    def __enter__(self) -> Hold:
        self._check_free()
        self._hold = _background.run(self._enter(self._owner or _owner()))
        return self._hold

    async def __aenter__(self) -> Hold:
        self._check_free()
        self._hold = await _background.arun(self._enter(self._owner or _owner()))
        return self._hold


class try_acquire(_Claiming):
    """As `lock`, but it does not wait: the block gets None when the resource cannot be had now.

    >>> with try_acquire("orders") as hold:
    ...     if hold is not None:
    ...         print(hold.token)
    """

    async def _enter(self, owner: str) -> Hold | None:
        request = resource_pb2.TryAcquireRequest(
            resources=self._uses,
            owner=owner,
            reason=self._reason,
            labels=self._labels,
            lease=self._lease,
        )
        held = await _claims.try_acquire(self._client.connection(), request)
        return None if held is None else Hold(held)

    def __enter__(self) -> Hold | None:
        self._check_free()
        return self._take(_background.run(self._enter(self._owner or _owner())))

    async def __aenter__(self) -> Hold | None:
        self._check_free()
        return self._take(await _background.arun(self._enter(self._owner or _owner())))


def _owner() -> str:
    """Whoever does one thing after the other: this thread, or this task of asyncio."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    who = threading.current_thread().name if task is None else task.get_name()
    owner = f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident():x}:{who}"
    # Behind a slash stands a part of an owner.
    return owner.replace("/", "-").encode()[:255].decode(errors="ignore")
