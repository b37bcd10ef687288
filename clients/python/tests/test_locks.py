"""Locks: what is held, waited for, lost."""

import asyncio
import contextlib
import itertools
import threading
from typing import Any

import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    AsyncClient,
    CallError,
    Client,
    HoldLost,
    LockTimeout,
    RallypointError,
    _background,
    _claims,
    _connection,
    _methods,
    lock,
    shared,
    try_acquire,
)
from rallypoint._connection import Connection
from rallypoint._details import unavailable
from rallypoint._request_id import new_request_id
from rallypoint.v1 import resource_pb2


@pytest.fixture(autouse=True)
def _resources(rallypoint: Client) -> None:
    rallypoint.create_resource("orders")
    rallypoint.create_resource("stock", capacity=2)


def end_by_force(server: RallypointServer, claim: int, reason: str) -> None:
    server.run("resource", "release", str(claim), "--force", "--reason", reason)


async def test_a_lock_is_held_by_one_at_a_time(face: Face, rallypoint: Client) -> None:
    async with face.block(lock("orders", owner="a", client=rallypoint)) as hold:
        assert (hold.lost, hold.resources) == (None, ["orders"])
        hold.check()
        async with face.block(try_acquire("orders", owner="b", client=rallypoint)) as second:
            assert second is None
        with pytest.raises(LockTimeout, match="orders was not granted"):
            async with face.block(lock("orders", owner="c", wait=0.1, client=rallypoint)):
                pass
    async with face.block(try_acquire("orders", client=rallypoint)) as again:
        assert again is not None
        assert again.token > hold.token


@pytest.mark.parametrize("claim", [lock, try_acquire])
async def test_a_claim_nobody_has_heard_of_yet_is_withdrawn(
    claim: Any, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service has granted it, and its caller is cancelled before the answer is there."""
    arrived, connection = threading.Event(), rallypoint.connection()
    call, resumed = connection.call, connection.resumed

    async def unheard_call(method: Any, request: Any, **named: Any) -> Any:
        answer = await call(method, request, **named)
        if method is _methods.TRY_ACQUIRE and not arrived.is_set():
            arrived.set()
            await asyncio.sleep(60)
        return answer

    async def unheard_stream(method: Any, request: Any, **named: Any) -> Any:
        async with contextlib.aclosing(resumed(method, request, **named)) as stream:
            async for message in stream:
                if not arrived.is_set():
                    arrived.set()
                    await asyncio.sleep(60)
                yield message

    monkeypatch.setattr(connection, "call", unheard_call)
    monkeypatch.setattr(connection, "resumed", unheard_stream)
    entering = asyncio.create_task(
        claim("orders", owner="a", lease=3600, client=rallypoint).__aenter__()
    )
    assert await asyncio.to_thread(arrived.wait, 30)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    async with lock("orders", owner="b", wait=15, client=rallypoint) as hold:
        assert hold.lost is None


async def test_a_claim_given_up_is_withdrawn_before_the_client_closes(
    rallypoint: Client, rallypoint_server: RallypointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is an hour: only the withdrawal lets others go on."""

    def waiting() -> bool:
        return '"owner":"b"' in rallypoint_server.run("resource", "queue", "orders", "--json")

    client = AsyncClient(rallypoint_server.url)
    connection = client.connection()
    call = connection.call

    async def slow_call(method: Any, request: Any, **named: Any) -> Any:
        if method is _methods.RELEASE:
            await asyncio.sleep(0.1)
        return await call(method, request, **named)

    monkeypatch.setattr(connection, "call", slow_call)
    async with lock("orders", owner="a", client=rallypoint):
        second = lock("orders", owner="b", lease=3600, client=client)
        entering = asyncio.create_task(second.__aenter__())
        while not await asyncio.to_thread(waiting):
            await asyncio.sleep(0.05)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await client.close()
        assert not await asyncio.to_thread(waiting)


async def test_a_claim_made_by_a_forgotten_call_is_withdrawn(
    rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call makes another claim, once the service has forgotten the one that has ended."""
    connection = rallypoint.connection()
    resumed = connection.resumed

    async def forgetful(method: Any, request: Any, **named: Any) -> Any:
        first, other = request(), resource_pb2.AcquireRequest()
        other.CopyFrom(first)
        other.request_id, other.owner = new_request_id(), "forgotten"
        for call in (first, other):
            async with contextlib.aclosing(
                resumed(method, itertools.repeat(call).__next__, **named)
            ) as stream:
                yield await anext(stream)

    async with lock("orders", owner="a", client=rallypoint):
        with monkeypatch.context() as patch:
            patch.setattr(connection, "resumed", forgetful)
            with pytest.raises(RallypointError, match="has ended, long ago"):
                await lock("orders", owner="b", lease=3600, client=rallypoint).__aenter__()
    async with lock("orders", owner="c", wait=15, client=rallypoint):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(connection, "resumed", forgetful)
        with pytest.raises(HoldLost, match="it has ended, long ago"):
            async with lock("orders", owner="b", lease=3600, client=rallypoint) as hold:
                while hold.lost is None:
                    await asyncio.sleep(0.01)
    async with lock("orders", owner="c", wait=15, client=rallypoint):
        pass


async def test_permits_are_shared(face: Face, rallypoint: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for owner in "ab":
            mine = lock(shared("stock"), owner=owner, client=rallypoint)
            await stack.enter_async_context(face.block(mine))
        third = try_acquire(shared("stock"), owner="c", client=rallypoint)
        assert await stack.enter_async_context(face.block(third)) is None


async def test_a_lock_that_was_lost_is_told(
    face: Face, rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    heard = threading.Event()
    with pytest.raises(HoldLost, match="has ended it: too long"):
        async with face.block(lock("orders", client=rallypoint)) as hold:
            hold.when_lost(lambda _: heard.set())
            end_by_force(rallypoint_server, hold.claim, "too long")
            assert await asyncio.to_thread(heard.wait, 30)
            with pytest.raises(HoldLost):
                hold.check()
            assert "too long" in str(hold.lost)


async def test_an_error_of_the_block_counts_more(
    face: Face, rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        async with face.block(lock("orders", client=rallypoint)) as hold:
            end_by_force(rallypoint_server, hold.claim, "x")
            _ = 1 / 0
    assert "was lost" in raised.value.__notes__[0]


async def test_a_lock_outlives_its_lease(face: Face, rallypoint: Client) -> None:
    async with face.block(lock("orders", lease=1, client=rallypoint)) as hold:
        await asyncio.sleep(1.7)
        hold.check()


async def test_a_hold_is_no_longer_than_its_resource_allows(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rallypoint.create_resource("brief", max_hold=3)

    async def told_nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(_claims.HeldClaim, "_follow", told_nothing)
    with pytest.raises(HoldLost, match="as long as the resource allows"):
        async with face.block(lock("brief", lease=3600, client=rallypoint)) as hold:
            while hold.lost is None:
                await asyncio.sleep(0.05)
            hold.check()


async def test_a_grant_that_is_noticed_after_its_end_is_no_hold(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rallypoint.create_resource("short-lived", max_hold=2)
    notice = _claims._Waiting._held
    noticed: list[_claims._Waiting] = []
    others: list[_claims.HeldClaim] = []

    async def late(self: _claims._Waiting, stream: Any) -> _claims.HeldClaim:
        noticed.append(self)
        if len(noticed) == 1:
            request = resource_pb2.AcquireRequest()
            request.CopyFrom(self._request)
            request.owner = "another"
            others.append(await _claims.acquire(self._connection, request))
        return await notice(self, stream)

    monkeypatch.setattr(_claims._Waiting, "_held", late)
    with pytest.raises(HoldLost, match="noticed too late"):
        async with face.block(lock("short-lived", lease=3600, client=rallypoint)):
            pass
    assert len(others) == 1
    _background.run(others[0].leave())


async def test_what_is_left_of_a_hold_counts_from_when_the_call_was_sent(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("waited-for", "tried"):
        rallypoint.create_resource(name, max_hold=2)
    call = Connection.call

    async def slow(self: Connection, method: Any, *arguments: Any, **named: Any) -> Any:
        answer = await call(self, method, *arguments, **named)
        if method in (_methods.RENEW, _methods.TRY_ACQUIRE):
            assert answer.claim.state == resource_pb2.CLAIM_STATE_HELD
            await asyncio.sleep(2.5)
        return answer

    monkeypatch.setattr(Connection, "call", slow)
    with pytest.raises(HoldLost, match="noticed too late"):
        async with face.block(lock("waited-for", client=rallypoint)):
            pass
    with pytest.raises(HoldLost, match="noticed too late"):
        async with face.block(try_acquire("tried", client=rallypoint)):
            pass


async def test_what_has_ended_by_the_time_of_the_answer_is_no_hold(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Connection.call

    async def twice(self: Connection, method: Any, request: Any, **named: Any) -> Any:
        answer = await call(self, method, request, **named)
        if method is not _methods.TRY_ACQUIRE:
            return answer
        ended = resource_pb2.ReleaseRequest(claim=answer.claim.claim, token=answer.claim.token)
        await call(self, _methods.RELEASE, ended)
        return await call(self, method, request, **named)

    monkeypatch.setattr(Connection, "call", twice)
    with pytest.raises(HoldLost, match="it was released"):
        async with face.block(try_acquire("orders", client=rallypoint)):
            pass


async def test_a_circle_is_refused(face: Face, rallypoint: Client) -> None:
    with pytest.raises(CallError) as raised:
        async with (
            face.block(lock("orders", client=rallypoint)),
            face.block(lock("orders", client=rallypoint)),
        ):
            pass
    assert raised.value.reason == "CIRCULAR_WAIT"
    assert "lock('a', 'b')" in str(raised.value)


async def test_a_wait_that_is_given_up_leaves_the_line(
    rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    async with lock("orders", owner="a", client=rallypoint):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), lock("orders", owner="b", client=rallypoint):
                pass
    async with asyncio.timeout(30), lock("orders", owner="c", client=rallypoint):
        pass


async def test_what_cannot_be_locked_is_refused(face: Face, rallypoint: Client) -> None:
    with pytest.raises(CallError) as raised:
        async with face.block(lock("nothing", client=rallypoint)):
            pass
    assert raised.value.reason == "RESOURCE_NOT_FOUND"
    assert "create_resource" in str(raised.value)
    once = lock("orders", client=rallypoint)
    async with face.block(once):
        with pytest.raises(RallypointError, match="make one for each block"):
            async with face.block(once):
                pass


async def test_resources_are_made_and_deleted(face: Face, rallypoint: Client) -> None:
    async with face.client(rallypoint.server) as client:
        assert await client.create_resource("tenant/*", max_hold=60)
        assert not await client.create_resource("tenant/*", max_hold=60)
        async with face.block(lock("tenant/7", client=rallypoint)) as hold:
            assert hold.token > 0
        await client.delete_resource("tenant/*")


async def test_a_delete_that_may_have_had_its_effect_is_unknown(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, answered = _connection._answer, 0

    async def unheard(*arguments: Any) -> bytes:
        nonlocal answered
        answered += 1
        said = await answer(*arguments)
        if answered == 1:
            raise unavailable("the connection broke")
        return said

    rallypoint.create_resource("deleted")
    async with face.client(rallypoint.server) as client:
        monkeypatch.setattr(_connection, "_answer", unheard)
        with pytest.raises(CallError) as raised:
            await client.delete_resource("deleted")
        assert (raised.value.reason, raised.value.is_unknown) == ("RESOURCE_NOT_FOUND", True)
        with pytest.raises(CallError) as raised:
            await client.delete_resource("deleted")
        assert (raised.value.reason, raised.value.is_unknown) == ("RESOURCE_NOT_FOUND", False)
