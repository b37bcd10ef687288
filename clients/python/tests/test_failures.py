"""Which failures are raised at the end of a block."""

import asyncio
import pickle
import time
from collections.abc import Iterator

import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    AsyncScheduler,
    Client,
    Scheduler,
    TaskCancelled,
    TaskFailed,
    TasksFailed,
    noop,
    sql,
)


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
