"""Who waits for a task that a failure blocks is told, and the task can be saved."""

import asyncio
import concurrent.futures
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from answering import answering
from conftest import Face

from rallypoint import (
    AsyncScheduler,
    CallError,
    Client,
    RallypointError,
    Scheduler,
    SchedulerHalted,
    _methods,
    noop,
)
from rallypoint._events import Events
from rallypoint._halts import Halts
from rallypoint.v1 import scheduler_pb2


async def test_who_waits_for_a_blocked_task_is_told(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, on_failure="halt") as s:
        failed = s.submit("select 1/0", order=1)
        blocked = s.submit("select 1", order=2)
        for _ in range(2):
            with pytest.raises(SchedulerHalted, match="^1 task cannot start") as halted:
                await face.result(blocked)
            assert str(pickle.loads(pickle.dumps(halted.value))) == str(halted.value)
        assert (halted.value.handle, halted.value.failed) == (s.handle, (failed.seq,))
        assert not blocked.done()
        await s.retry(failed, "select 1")
        assert (await face.result(blocked)).rows_affected == 1


async def test_a_halt_that_begins_while_many_wait(rallypoint: Client) -> None:
    async with AsyncScheduler(rallypoint, on_failure="halt") as s:
        failed = s.submit("select pg_sleep(0.3), 1/0", order=1)
        blocked = await s.map(noop(), range(300), order=2)
        told = await asyncio.gather(*blocked, return_exceptions=True)
        assert {str(error) for error in told} == {str(told[0])}
        assert str(told[0]).startswith("300 tasks cannot start, since tasks failed: 1")
        free = s.submit("select 1")
        assert (await free).rows_affected == 1
        await s.retry(failed, "select 1")
        await asyncio.gather(*blocked)


def test_a_blocked_future_stays_pending(rallypoint: Client) -> None:
    with Scheduler(rallypoint, on_failure="halt") as s:
        failed = s.submit("select 1/0", order=1)
        blocked = s.submit("select 1", order=2)
        for wait in (blocked.result, blocked.exception):
            with pytest.raises(SchedulerHalted):
                wait(30)
        assert concurrent.futures.wait([failed, blocked], 0.2).not_done == {blocked}
        s.retry(failed, "select 1")
        ended = concurrent.futures.as_completed([failed, blocked], 30)
        assert set(ended) == {failed, blocked}


async def test_the_failures_are_known_with_the_halt(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the stream of events is behind, so that none of them comes after its repair."""
    follow = Events._follow

    async def follow_late(events: Events) -> None:
        await asyncio.sleep(1)
        await follow(events)

    monkeypatch.setattr(Events, "_follow", follow_late)
    for is_waiting_for_all in (True, False):
        async with face.scheduler(rallypoint, on_failure="halt") as s:
            failed = s.submit("select 1/0", order=1)
            blocked = s.submit("select 1", order=2)
            with pytest.raises(SchedulerHalted):
                await (s.synchronize() if is_waiting_for_all else face.result(blocked))
            assert failed.done()
            await s.retry(failed, "select 1")
            await face.result(blocked)


async def test_a_halt_outlasts_the_setting(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, on_failure="halt") as s:
        failed = s.submit("select 1/0", order=1)
        await face.error(failed)
        await s.update(on_failure="continue")
        async with face.scheduler(rallypoint, handle=s.handle, on_exit="leave") as other:
            blocked: Any = other.submit("select 1", order=2)
            with pytest.raises(SchedulerHalted):
                await face.result(blocked)
        await s.resume(ignore_failures=True)


def test_who_synchronizes_where_a_failure_may_halt_is_told_that_the_block_was_left() -> None:
    def get(*_: Any) -> Any:
        opened = scheduler_pb2.Scheduler(handle="a")
        opened.settings.on_failure = scheduler_pb2.ON_FAILURE_HALT
        return scheduler_pb2.GetSchedulerResponse(scheduler=opened)

    def follow(_: Any, context: Any) -> Iterator[Any]:
        yield scheduler_pb2.SynchronizationResponse(pending=1)
        while context.is_active():
            time.sleep(0.01)

    with answering() as service, Client(service.address) as client:
        service.answers(_methods.GET_SCHEDULER, get)
        taken = scheduler_pb2.ExecAsyncResponse(first_seq=1)
        service.answers(_methods.EXEC_ASYNC, lambda *_: taken)
        service.streams(_methods.SYNCHRONIZATION, follow)
        s = Scheduler(client, on_exit="leave").open()
        s.submit(noop())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(s.synchronize)
            while not s._core.ledger._waiters:
                time.sleep(0.01)
            s.close()
            with pytest.raises(RallypointError, match="the task goes on"):
                waiting.result(30)


async def test_who_waits_is_told_though_a_stream_was_refused(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, refusals = Halts._look, [CallError("RESOURCE_EXHAUSTED", "too many streams")]

    async def look_when_there_is_room(halts: Halts) -> SchedulerHalted | None:
        if refusals:
            raise refusals.pop()
        return await look(halts)

    monkeypatch.setattr(Halts, "_look", look_when_there_is_room)
    async with face.scheduler(rallypoint, on_failure="halt") as s:
        failed = s.submit("select 1/0", order=1)
        blocked = s.submit("select 1", order=2)
        with pytest.raises(SchedulerHalted):
            await face.result(blocked)
        assert not refusals
        await s.retry(failed, "select 1")
        await face.result(blocked)
