"""Which failures are raised at the end of a block."""

import asyncio
import concurrent.futures
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    AsyncScheduler,
    CallError,
    Client,
    Scheduler,
    SchedulerHalted,
    TaskCancelled,
    TaskFailed,
    TasksFailed,
    _methods,
    _submission,
    noop,
    sql,
)
from rallypoint._backoff import Backoff
from rallypoint._details import unavailable


@pytest.mark.parametrize("seen", [slice(100), slice(1, None)])
def test_all_that_nobody_has_seen_are_counted(rallypoint: Client, seen: slice) -> None:
    with pytest.raises(TasksFailed) as raised, Scheduler(rallypoint) as s:
        futures = s.map("select 1/$1::int", [0] * 300)
        errors = [future.exception(30) for future in futures[seen]]
    assert raised.value.count == 300 - len(errors)
    assert len(raised.value.failures) == min(raised.value.count, 100)
    assert set(raised.value.failures).isdisjoint(futures[seen])


def test_what_an_operator_cancels_is_told(
    rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    with pytest.raises(TasksFailed) as raised, Scheduler(rallypoint) as s:
        s.pause()
        future = s.submit(noop())
        while not future.seq:
            pass
        rallypoint_server.run("release", "--cancel", "--yes", s.handle)
    assert raised.value.count == 1
    assert isinstance(future.exception(), TaskCancelled)


async def test_what_a_halt_blocks_ends_cancelled_and_not_failed(
    face: Face, rallypoint: Client
) -> None:
    with pytest.raises(TasksFailed) as raised:
        async with face.scheduler(rallypoint, on_failure="halt") as s:
            await s.map("select 1/$1::int", [0, 0], order=1)
            blocked = s.submit(noop(), order=2)
    assert (raised.value.count, raised.value.cancelled, blocked.cancelled()) == (3, 1, True)
    assert str(raised.value).startswith("2 tasks failed, 1 was cancelled\ntask ")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


async def test_where_a_scheduler_stays_open_the_halt_stays(face: Face, rallypoint: Client) -> None:
    with pytest.raises(SchedulerHalted):
        async with face.scheduler(rallypoint, on_failure="halt", on_exit="wait") as s:
            s.submit("select 1/0", order=1)
            blocked = s.submit(noop(), order=2)
    assert not blocked.done()
    await s.resume(ignore_failures=True)
    await face.result(blocked)


@pytest.mark.parametrize(
    ("failed", "cancelled", "text"),
    [
        (1, 0, "1 task failed"),
        (0, 1, "1 task was cancelled"),
        (0, 2, "2 tasks were cancelled"),
        (1, 2, "1 task failed, 2 were cancelled"),
    ],
)
def test_failed_and_cancelled_are_told_apart(failed: int, cancelled: int, text: str) -> None:
    error = TasksFailed([], failed + cancelled, cancelled)
    assert str(error).splitlines()[0] == text


async def test_failures_that_are_ignored_are_not_raised(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint, on_failure="halt") as s:
        s.submit("select 1/0", order=1)
        blocked = s.submit(noop(), order=2)
        with pytest.raises(SchedulerHalted):
            await s.synchronize()
        await s.resume(ignore_failures=True)
        await s.synchronize()
    assert (await face.result(blocked)).seq == 2


async def test_what_fails_behind_an_ignored_failure_is_raised(
    face: Face, rallypoint: Client
) -> None:
    with pytest.raises(TasksFailed) as raised:
        async with face.scheduler(rallypoint, on_failure="halt") as s:
            s.submit("select 1/0", order=1)
            later = s.submit("select 1/0", order=2)
            with pytest.raises(SchedulerHalted):
                await s.synchronize()
            await s.resume(ignore_failures=True)
    assert raised.value.failures == (later,)


async def test_what_failed_can_be_pickled(face: Face, rallypoint: Client) -> None:
    with pytest.raises(TasksFailed) as raised:
        async with face.scheduler(rallypoint) as s:
            good = s.submit(sql("select 7 as n", rows=1), order=3)
            s.submit("select 1/0")
            await face.result(good)
            running = s.submit("select pg_sleep(0.5)")
            with pytest.raises(TypeError, match="when its task has ended, not before"):
                pickle.dumps(running)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.count) == (str(raised.value), 1)
    (failed,) = copied.failures
    assert (failed.statement, failed.seq) == ("select 1/0", 2)
    assert (failed.handle, failed.done(), failed.cancel()) == (s.handle, True, False)
    assert isinstance(failed.exception(), TaskFailed)
    assert (failed.exception().sqlstate, failed.exception().handle) == ("22012", s.handle)
    kept = pickle.loads(pickle.dumps(good))
    assert (kept.result().rows, kept.order, kept.cancelled()) == ([{"n": 7}], 3, False)


async def test_a_map_with_a_wrong_item_is_cancelled(face: Face, rallypoint: Client) -> None:
    def items() -> Iterator[object]:
        yield 60
        time.sleep(0.1)  # what has come is submitted with the next item
        yield 60
        yield object()

    async with face.scheduler(rallypoint) as s:
        with pytest.raises(TypeError, match="item 2") as raised:
            await s.map("select pg_sleep($1::float)", items())
        assert raised.value.__notes__ == ["map: 2 tasks before were submitted, and are cancelled"]
        await s.synchronize()
        assert s.progress.cancelled == 2


async def test_a_map_lets_others_have_their_turn(rallypoint: Client) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with AsyncScheduler(rallypoint) as s:
        await asyncio.sleep(0)
        before = turns
        await s.map(noop(), range(10_000))
        assert turns - before >= 5
    counting.cancel()


async def test_a_resource_that_is_missing_is_named_once(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint) as s:
        missing = str(await face.error(s.submit(sql("select 1", resources=["nope"]))))
    assert missing.count("task.options.resources") == missing.count("nope") == 1
    assert "tasks[0]" not in missing
    assert missing.endswith(
        "Client.create_resource, at the command line `rallypoint resource create`."
    )


async def test_of_thousands_that_are_wrong_each_is_refused_and_the_others_run(
    face: Face, rallypoint: Client
) -> None:
    async with face.scheduler(rallypoint) as s:
        blocker = s.submit("select pg_sleep(60)", order=5)
        while (await s.describe()).current_order != 5:
            await asyncio.sleep(0.01)
        late = await s.map(noop(), range(1_500), order=1)
        good = await s.map(noop(), range(100))
        nowhere = await s.map(sql("select 1", target="nowhere"), range(700))
        for future in late:
            assert (await face.error(future)).reason == "ORDER_CLOSED"
        for future in nowhere:
            assert (await face.error(future)).reason == "TARGET_UNKNOWN"
        for future in good:
            await face.result(future)
        blocker.cancel()


async def test_two_retries_of_a_task_are_one(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint) as s:
        wrong = s.submit("select 1/0")
        await face.error(wrong)
        blocker = s.submit("select pg_sleep(60)", order=5)
        first = await s.retry(wrong, sql("select pg_sleep(1)"))
        second = await s.retry(wrong, sql("select pg_sleep(1)"))
        assert first is second
        await face.result(first)
        blocker.cancel()


async def test_a_retry_that_has_ended_counts_once(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint) as s:
        wrong = s.submit("select 1/0")
        await face.error(wrong)
        first = await s.retry(wrong)
        await face.error(first)
        assert await s.retry(wrong) is first
        assert (s.progress.submitted, s.progress.failed) == (2, 2)


@pytest.mark.parametrize(
    "error",
    [
        CallError("RESOURCE_EXHAUSTED", "it is full", reason="QUEUE_FULL", retry_after=1),
        CallError("UNAVAILABLE", "nobody answers", is_unknown=True),
        CallError("UNAUTHENTICATED", "who calls?", reason="IDENTITY_INVALID"),
    ],
    ids=lambda error: error.code,
)
def test_what_is_behind_a_refused_order_is_not_sent(
    error: CallError, rallypoint_server: RallypointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(rallypoint_server.url)
    connection = client.connection()
    call = connection.call

    async def refuse(method: Any, request: Any, **named: Any) -> Any:
        if method is _methods.EXEC_ASYNC and request.tasks[0].order == 100:
            raise error
        return await call(method, request, **named)

    monkeypatch.setattr(connection, "call", refuse)
    monkeypatch.setattr(_submission, "_MAX_TASKS", 1)
    with Scheduler(client) as s:
        entries = [s._core.entry(noop(), order) for order in (100, 100, 200)]
        s._core.submission.put(entries)
        futures = [future for future, _ in entries]
        # Nobody has asked about them yet: the later order would run without them.
        assert not concurrent.futures.wait(futures, 30).not_done
        futures.append(s.submit(noop(), order=200))
        assert not concurrent.futures.wait(futures, 30).not_done
        assert s.submit(noop()).exception(30) is None
        first, *others = (future.exception(30) for future in futures)
        assert isinstance(first, CallError)
        assert (first.code, first.message) == (error.code, error.message)
        for other in others:
            assert isinstance(other, CallError)
            assert other.message.startswith("not sent, since tasks before it were refused: ")
            assert (other.is_unknown, other.is_retryable) == (False, error.is_retryable)
        assert s.submit(noop(), order=200).exception(30) is None
        refused = s.submit(noop(), order=100)
        assert not concurrent.futures.wait([refused], 30).not_done
        with pytest.raises(TasksFailed):
            s.synchronize()
        assert s.submit(noop(), order=200).exception(30) is None
    client.close()


async def test_a_full_queue_is_no_outage() -> None:
    patient = 60.0
    backoff = Backoff(0.0, lambda: patient)
    full = CallError("RESOURCE_EXHAUSTED", "full", reason="QUEUE_FULL", retry_after=0.0)
    await backoff.wait(full)
    with pytest.raises(CallError, match="UNAVAILABLE"):
        await backoff.wait(unavailable("nobody is there"))
    await backoff.wait(full)
    patient = 0.0  # all is to be cancelled
    with pytest.raises(CallError, match="QUEUE_FULL"):
        await backoff.wait(full)
