"""Claims on resources: they wait, are held, and end. The same call under its request id goes on.

All of it on the background thread.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator

from rallypoint import _methods
from rallypoint._connection import Connection
from rallypoint._given_up import in_background
from rallypoint._leases import DEFAULT_LEASE, Lease
from rallypoint._request_id import new_request_id
from rallypoint.errors import CallError, HoldLost, LockTimeout, RallypointError
from rallypoint.v1 import resource_pb2

log = logging.getLogger("rallypoint")

# How long a hold may take to say how it has ended.
_END_TIMEOUT = 0.5
# Reasons with which a renewal says that the hold is over.
_FINAL = ("CLAIM_ENDED", "CLAIM_NOT_FOUND", "TOKEN_MISMATCH")
_LONG_AGO = "it has ended, long ago"
_HELD_TOO_LONG = "it was held for as long as the resource allows"
_ENDS = {
    resource_pb2.CLAIM_END_RELEASED: "it was released",
    resource_pb2.CLAIM_END_WITHDRAWN: "it was withdrawn",
    resource_pb2.CLAIM_END_TIMED_OUT: "it waited for as long as it was to wait",
    resource_pb2.CLAIM_END_ABANDONED: "it was not renewed while it waited",
    resource_pb2.CLAIM_END_EXPIRED: "it was not renewed within its lease",
    resource_pb2.CLAIM_END_HELD_TOO_LONG: _HELD_TOO_LONG,
}


def _how(claim: resource_pb2.Claim) -> str:
    if claim.end == resource_pb2.CLAIM_END_FORCED:
        return f"{claim.ended_by} has ended it: {claim.end_reason}"
    return _ENDS.get(claim.end, "it is over")


def _left(claim: resource_pb2.Claim) -> float | None:
    """For how many seconds it may be held from when the call was sent that says it."""
    if not claim.HasField("hold_left"):
        return None
    return claim.hold_left.ToTimedelta().total_seconds()


class HeldClaim:
    """A claim that was granted, and is renewed."""

    def __init__(
        self,
        connection: Connection,
        claim: resource_pb2.Claim,
        since: float,
        stream: AsyncGenerator[resource_pb2.AcquireResponse, None] | None,
    ) -> None:
        self.claim = claim
        self._connection = connection
        seconds = claim.lease.ToTimedelta().total_seconds() or DEFAULT_LEASE
        what = f"the hold of {', '.join(use.name for use in claim.resources)}"
        left = _left(claim)
        self.lease = Lease(what, seconds, since, self._renew, self._why, left, _HELD_TOO_LONG)
        self._watch = asyncio.create_task(self._follow(stream)) if stream is not None else None

    async def release(self, limit: float | None = None) -> None:
        """Gives it back, within so many seconds. Raises HoldLost when it was lost before."""
        lost = self.lease.lost
        await self.leave()
        request = resource_pb2.ReleaseRequest(claim=self.claim.claim, token=self.claim.token)
        try:
            released = await self._connection.call(_methods.RELEASE, request, limit=limit)
        except CallError as error:
            if lost is None and error.reason not in _FINAL:
                raise
            raise HoldLost(f"the hold was lost: {lost or error.message}") from None
        if released.claim.end != resource_pb2.CLAIM_END_RELEASED:
            raise HoldLost(f"the hold was lost: {_how(released.claim)}")
        if lost is not None:
            raise HoldLost(f"the hold was lost: {lost}")

    async def leave(self) -> None:
        """Renews it no more."""
        self.lease.stop()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])

    async def _renew(self, limit: float) -> float | None:
        request = resource_pb2.RenewRequest(claim=self.claim.claim, token=self.claim.token)
        renewed = await self._connection.call(_methods.RENEW, request, limit=limit)
        return _left(renewed.claim)

    async def _why(self, error: CallError) -> str | None:
        if error.reason not in _FINAL:
            return None
        request = resource_pb2.GetClaimRequest(claim=self.claim.claim)
        with contextlib.suppress(CallError):
            known = await self._connection.call(_methods.GET_CLAIM, request, limit=_END_TIMEOUT)
            if known.claim.state == resource_pb2.CLAIM_STATE_ENDED:
                return _how(known.claim)
        return error.message

    async def _follow(self, stream: AsyncGenerator[resource_pb2.AcquireResponse, None]) -> None:
        """Hears at once when the service ends the hold. Without it the renewals alone tell."""
        with contextlib.suppress(CallError):
            async with contextlib.aclosing(stream):
                async for message in stream:
                    if message.claim.claim != self.claim.claim:
                        in_background(_withdraw(self._connection, message.claim))
                        self.lease.lose(_LONG_AGO)
                        return
                    if message.claim.state == resource_pb2.CLAIM_STATE_ENDED:
                        self.lease.lose(_how(message.claim))
                        return


async def _confirmed(
    connection: Connection, claim: resource_pb2.Claim, since: float, seconds: float
) -> tuple[resource_pb2.Claim, float]:
    """A claim that was granted, and since when it is kept for a lease of so many seconds.

    One is renewed first that its resources limit, or whose last renewal is long ago. How long the
    grant was on its way is not known, and others may have been granted the same meanwhile: the
    answer to a call says how much is left from when the call was sent.
    """
    left, sent = _left(claim), time.monotonic()
    if left is None and sent - since < seconds / 3:
        return claim, since
    # After that the answer would come too late in any case.
    limit = seconds if left is None else min(left, seconds)
    request = resource_pb2.RenewRequest(claim=claim.claim, token=claim.token)
    try:
        renewed = await connection.call(_methods.RENEW, request, limit=limit)
    except CallError as error:
        if error.reason not in _FINAL and time.monotonic() < sent + limit:
            error.is_unknown = True  # what was claimed was granted, whatever this call was answered
            raise
        raise HoldLost(f"the grant was noticed too late: {error.message}") from None
    return renewed.claim, sent


async def _kept(held: HeldClaim) -> HeldClaim:
    """Raises HoldLost when it is over by the clock of this process."""
    if (lost := held.lease.lost) is not None:
        await held.leave()
        raise HoldLost(f"the grant was noticed too late: {lost}")
    return held


async def acquire(connection: Connection, request: resource_pb2.AcquireRequest) -> HeldClaim:
    """Waits until a claim is granted. Cancelled, it withdraws the claim.

    Raises LockTimeout when it has waited for as long as it was to wait, HoldLost when the grant
    is noticed too late.
    """
    request.request_id = new_request_id()
    request.renewed_by_caller = True  # a process that is suspended must not keep others waiting
    seconds = request.lease.ToTimedelta().total_seconds() or DEFAULT_LEASE
    waiting = _Waiting(connection, request, seconds)
    try:
        return await waiting.granted()
    except BaseException as error:
        waiting.give_up(error)
        raise


class _Waiting:
    """A claim that stands in line."""

    def __init__(
        self, connection: Connection, request: resource_pb2.AcquireRequest, seconds: float
    ) -> None:
        self._connection, self._request, self._seconds = connection, request, seconds
        self._claim = resource_pb2.Claim()
        self._since = time.monotonic()

    async def granted(self) -> HeldClaim:
        stream = self._connection.resumed(
            _methods.ACQUIRE, lambda: self._request, is_news=self._has_come_on
        )
        renewals = asyncio.create_task(self._renew())
        try:
            async for message in stream:
                claim = message.claim
                if self._claim.claim not in (0, claim.claim):
                    # The service has forgotten it, and made another one of the same call.
                    in_background(_withdraw(self._connection, claim))
                    raise RallypointError(f"claim {self._claim.claim} has ended, long ago")
                self._claim = claim
                if claim.state == resource_pb2.CLAIM_STATE_HELD:
                    return await self._held(stream)
                if claim.state == resource_pb2.CLAIM_STATE_ENDED:
                    raise self._not_granted()
            raise AssertionError("a stream that is resumed ends with an error")
        except BaseException:
            await stream.aclose()
            raise
        finally:
            renewals.cancel()

    def _has_come_on(self, message: resource_pb2.AcquireResponse) -> bool:
        """Whether the claim is another one than before in what matters to whoever waits for it."""
        before, now = self._claim, message.claim
        known = (before.claim, before.state, before.position)
        return known != (now.claim, now.state, now.position)

    async def _held(self, stream: AsyncGenerator[resource_pb2.AcquireResponse, None]) -> HeldClaim:
        kept = await _confirmed(self._connection, self._claim, self._since, self._seconds)
        self._claim, self._since = kept
        return await _kept(HeldClaim(self._connection, self._claim, self._since, stream))

    def _not_granted(self) -> RallypointError:
        claim = self._claim
        text = f"{', '.join(use.name for use in claim.resources)} was not granted: {_how(claim)}"
        if claim.end == resource_pb2.CLAIM_END_TIMED_OUT:
            return LockTimeout(text)
        return RallypointError(text)

    async def _renew(self) -> None:
        """While it waits. What keeps that from coming about the stream will tell."""
        third = self._seconds / 3
        pause = third
        while True:
            await asyncio.sleep(pause)
            sent, pause = time.monotonic(), third
            request = resource_pb2.RenewRequest(claim=self._claim.claim, token=self._claim.token)
            if request.claim:
                try:
                    await self._connection.call(_methods.RENEW, request, limit=third)
                    self._since = sent
                except CallError as error:
                    if error.is_retryable:  # another one still comes before its lease is over
                        pause = min(_RETRY_PAUSE, third)

    def give_up(self, error: BaseException) -> None:
        """Withdraws it, in the background: the lease ends it, too."""
        if not self._claim.claim:
            if isinstance(error, asyncio.CancelledError):
                in_background(self._withdraw_unknown())
        elif self._claim.state != resource_pb2.CLAIM_STATE_ENDED:
            in_background(_withdraw(self._connection, self._claim))

    async def _withdraw_unknown(self) -> None:
        """Nobody has said yet whether it is in line: the same call says it, or is the first."""
        stream = self._connection.resumed(_methods.ACQUIRE, lambda: self._request)
        with contextlib.suppress(CallError):
            async with contextlib.aclosing(stream):
                async for message in stream:
                    await _withdraw(self._connection, message.claim)
                    return


# Before a renewal that failed is sent again.
_RETRY_PAUSE = 0.5


async def _withdraw(connection: Connection, claim: resource_pb2.Claim) -> None:
    """Ends a claim, granted or not by now."""
    request = resource_pb2.ReleaseRequest(claim=claim.claim, token=claim.token)
    try:
        try:
            await connection.call(_methods.RELEASE, request)
        except CallError as error:
            if error.reason != "TOKEN_MISMATCH" or claim.token:
                raise
            known = resource_pb2.GetClaimRequest(claim=claim.claim)
            granted = await connection.call(_methods.GET_CLAIM, known)
            request.token = granted.claim.token
            await connection.call(_methods.RELEASE, request)
    except CallError as error:
        log.info("claim %d ends with its lease: %s", claim.claim, error)


async def try_acquire(
    connection: Connection, request: resource_pb2.TryAcquireRequest
) -> HeldClaim | None:
    """A claim that is granted at once; None: others are in the way.

    Raises HoldLost when the grant is noticed too late.
    """
    request.request_id = new_request_id()
    since = time.monotonic()
    try:
        answer = await connection.call(_methods.TRY_ACQUIRE, request)
    except asyncio.CancelledError:
        in_background(_withdraw_tried(connection, request))
        raise
    if not answer.HasField("claim"):
        log.debug("in the way: %s", [holder.owner for holder in answer.in_the_way])
        return None
    # The answer may be that to a repetition, long after the grant.
    if answer.claim.state != resource_pb2.CLAIM_STATE_HELD:
        raise HoldLost(f"the grant was noticed too late: {_how(answer.claim)}")
    seconds = request.lease.ToTimedelta().total_seconds() or DEFAULT_LEASE
    try:
        claim, left = answer.claim, _left(answer.claim)
        if time.monotonic() - since >= (seconds if left is None else min(seconds, left)) / 3:
            claim, since = await _confirmed(connection, claim, since, seconds)
        return await _kept(HeldClaim(connection, claim, since, None))
    except BaseException:
        in_background(_withdraw(connection, answer.claim))
        raise


async def _withdraw_tried(connection: Connection, request: resource_pb2.TryAcquireRequest) -> None:
    """Gives back what a call may have granted whose answer nobody waits for."""
    with contextlib.suppress(CallError):
        answer = await connection.call(_methods.TRY_ACQUIRE, request)
        if answer.HasField("claim"):
            await _withdraw(connection, answer.claim)
