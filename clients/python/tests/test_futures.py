"""Futures and maps: what a program waits for, with threads and with asyncio."""

import asyncio
import concurrent.futures
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from conftest import Face

from rallypoint import Client, RallypointError, TaskFailed, TaskFuture, noop, sql
from rallypoint._future import _Elsewhere
from rallypoint.v1 import task_pb2

Database = psycopg.Connection[Any]


def test_futures_are_those_of_concurrent_futures(rallypoint: Client) -> None:
    from rallypoint import Scheduler

    with Scheduler(rallypoint) as s:
        slow, quick = s.submit("select pg_sleep(1)"), s.submit(noop())
        first = next(concurrent.futures.as_completed([slow, quick], timeout=30))
        assert first is quick
        done, left = concurrent.futures.wait([slow, quick], timeout=30)
        assert (done, left) == ({slow, quick}, set())
        called: list[Any] = []
        slow.add_done_callback(called.append)
        assert called == [slow]
        with pytest.raises(TimeoutError):
            s.submit("select pg_sleep(0.5)").result(0.01)

        inside: list[BaseException] = []

        def wait_here(_: object) -> None:
            for wait in (s.synchronize, asleep.result):
                try:
                    wait()
                except RallypointError as error:
                    inside.append(error)

        # Long enough for a busy machine to ask for it while it runs.
        asleep = s.submit("select pg_sleep(2)")
        waited = s.submit("select pg_sleep(0.1)")
        waited.add_done_callback(wait_here)
        waited.result(30)
        s.submit(noop()).result(30)
    assert ["callback" in str(error) for error in inside] == [True, True]


async def test_futures_are_awaited(rallypoint: Client) -> None:
    from rallypoint import AsyncScheduler

    async with AsyncScheduler(rallypoint) as s:
        futures = await s.map(sql("select $1::int as n", rows=1), range(20))
        results = await asyncio.gather(*futures)
        assert [result.rows[0]["n"] for result in results] == list(range(20))
        slow = s.submit("select pg_sleep(0.3)")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow, 0.01)
        assert not slow.done(), "what awaits it was cancelled, and not the task"
        await slow


async def test_the_same_future_for_threads_and_asyncio(rallypoint: Client) -> None:
    from rallypoint import Scheduler

    with Scheduler(rallypoint) as s:
        future = s.submit("select pg_sleep(0.1)")
        assert (await future) is await asyncio.to_thread(future.result, 30)


async def test_slow_items_of_a_map_do_not_wait_for_each_other(
    face: Face, rallypoint: Client, database: Database, table: str
) -> None:
    def items() -> Iterator[int]:
        yield 1
        time.sleep(0.1)
        yield 2
        while database.execute("select count(*) from seen").fetchone() != (2,):
            time.sleep(0.01)

    async with face.scheduler(rallypoint) as s:
        assert len(await s.map("insert into seen values ($1)", items())) == 2


async def test_many_tasks(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(rallypoint) as s:
        futures = await s.map(noop(), range(25_000))
        await s.synchronize()
        assert sorted(future.seq for future in futures) == list(range(1, 25_001))
        assert [future.seq for future in futures] == list(range(1, 25_001))
        assert (s.progress.done, s.progress.submitted, s.progress.share) == (25_000, 25_000, 1.0)


def test_a_block_of_an_order_does_not_reach_other_threads(rallypoint: Client) -> None:
    from rallypoint import Scheduler, TaskFuture

    def unordered(s: Scheduler) -> TaskFuture:
        with s.order(None):
            return s.submit(noop())

    with Scheduler(rallypoint) as s, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with s.order(100):
            text = r"in `with s\.order\(100\)`.*Give order=…"
            for submit in (lambda: s.submit(noop()), lambda: s.map(noop(), [()])[0]):
                with pytest.warns(RuntimeWarning, match=text) as warned:
                    assert pool.submit(submit).result().order is None
                assert [one.filename for one in warned] == [__file__]
            assert pool.submit(unordered, s).result().order is None
            assert pool.submit(s.submit, noop(order=7)).result().order == 7
            assert pool.submit(s.submit, noop(), order=100).result().order == 100
            with Scheduler(rallypoint) as other:
                assert pool.submit(other.submit, noop()).result().order is None
        assert pool.submit(s.submit, noop()).result().order is None


@pytest.mark.parametrize("outcome", [0, 99])
def test_an_outcome_that_is_not_known_is_a_failure(outcome: int) -> None:
    done = task_pb2.AsyncDone(seq=7, error=task_pb2.TaskError(code="MOVED", message="it went on"))
    done.MergeFromString(bytes([task_pb2.AsyncDone.OUTCOME_FIELD_NUMBER << 3, outcome]))
    ended = TaskFuture(_Elsewhere("a"), None, None).outcome(done)
    assert isinstance(ended, TaskFailed)
    assert str(ended).startswith("task 7: OUTCOME_UNKNOWN the service says that the task ended")
    assert f"outcome {outcome}, " in str(ended)
    assert str(ended).endswith("its error: MOVED it went on")
