"""Locks, for `with` and for `async with`."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Generic, TypeVar

from rallypoint import _background, _checks, _claims, _times
from rallypoint._client import BaseClient, client_of
from rallypoint._leases import HURRY
from rallypoint._tasks import Use, check_labels, uses
from rallypoint._times import Seconds
from rallypoint.errors import HoldLost, RallypointError
from rallypoint.v1 import resource_pb2


class Hold:
    """What a `with lock(…)` block holds. It is renewed in the background."""

    def __init__(self, held: _claims.HeldClaim) -> None:
        self._held = held

    def __repr__(self) -> str:
        state = self.lost or "held"
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
        """Why it was lost, or that it was given back; None: as far as is known, it is held."""
        return self._held.lease.lost

    def check(self) -> None:
        """Raises HoldLost if it was lost. Call it before each step that needs the lock."""
        if (why := self.lost) is not None:
            raise HoldLost(f"the hold of {', '.join(self.resources)} was lost: {why}")

    def when_lost(self, function: Callable[[str], None]) -> None:
        """Has a function called with the reason when it is lost, on another thread.

        It must not wait.
        """
        if not callable(function):
            raise TypeError(f"function: give something to call, not {function!r}")
        _background.call(self._held.lease.when_lost, function)


H = TypeVar("H", bound=Hold | None)


class _Claiming(Generic[H]):
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
        self._owner = None if owner is None else _checks.text(owner, "owner")
        self._reason = _checks.text(reason, "reason")
        self._labels = check_labels(labels)
        if not 1 <= _times.seconds(lease, "lease") <= 3600:
            raise ValueError(f"lease: 1 s to 1 h, not {lease}")
        self._lease = _times.duration(lease, "lease")
        self._client = client_of(client)
        self._hold: Hold | None = None
        self._use_lock, self._is_in_use = threading.Lock(), False

    def __repr__(self) -> str:
        names = ", ".join(repr(use.name) for use in self._uses)
        return f"{type(self).__name__}({names})"

    async def _enter(self, owner: str) -> H:
        raise NotImplementedError

    async def _exit(self, hold: Hold, error: BaseException | None) -> None:
        """Gives it back, once: Ctrl-C may have had it handed over twice."""
        if self._hold is not hold:
            return
        self._hold = None
        try:
            await hold._held.release(None if error is None else HURRY)
        except RallypointError as lost:
            # An error of the block counts more.
            if error is None:
                raise
            error.add_note(str(lost))

    def _use(self) -> None:
        """Has it for one block at a time, from before anything is acquired."""
        with self._use_lock:
            if self._is_in_use:
                raise RallypointError("this lock is in use; make one for each block: lock('…')")
            self._is_in_use = True

    def __enter__(self) -> H:
        self._use()
        try:
            # Nothing is called behind it, where Ctrl-C could come and nobody have the hold.
            self._hold = hold = _background.run(self._enter(self._owner or _owner()), _undo)
            return hold
        except BaseException:
            self._is_in_use = False
            raise

    async def __aenter__(self) -> H:
        self._use()
        try:
            self._hold = hold = await _background.arun(self._enter(self._owner or _owner()), _undo)
            return hold
        except BaseException:
            self._is_in_use = False
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold = self._hold
        try:
            if hold is not None and hold._held.lease.is_here():
                _background.finish(self._exit(hold, error))
        except RallypointError:
            raise
        except BaseException:  # Ctrl-C may come before it is handed over
            if hold is not None and hold._held.lease.is_here():
                _background.go_on(self._exit(hold, error))
            raise
        finally:
            self._is_in_use = False

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold = self._hold
        try:
            if hold is not None and hold._held.lease.is_here():
                await _background.afinish(self._exit(hold, error))
        finally:
            self._is_in_use = False


async def _undo(hold: Hold | None) -> None:
    """Of a block that was not entered after all."""
    if hold is not None:
        await hold._held.release()


class lock(_Claiming[Hold]):
    """Holds one resource, or several at once, for a block.

    >>> with lock("orders") as hold:
    ...     print(hold.token)

    A name stands for the whole resource; `shared("name", permits)` for some of its permits. It
    waits in line, for `wait` seconds at most (LockTimeout). It is renewed until the block is left.
    When it was lost meanwhile, leaving the block raises HoldLost; `hold.check()` raises it before.
    Entering raises it when the grant took longer to come than it is good for.

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


class try_acquire(_Claiming[Hold | None]):
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
