"""Callbacks of futures and holds, whatever they do."""

import asyncio
import enum
import sys
import threading
from typing import Any

import pytest

from pytest_rallypoint import RallypointServer
from rallypoint import (
    AsyncScheduler,
    Client,
    RallypointError,
    Result,
    Scheduler,
    TaskFuture,
    _background,
    lock,
    sql,
)
from rallypoint._future import _Elsewhere
from rallypoint.v1 import task_pb2


def test_a_callback_that_exits_stops_nothing(rallypoint: Client) -> None:
    heard = threading.Event()
    with Scheduler(rallypoint) as s:
        s.pause()
        future = s.submit("select 1")
        future.add_done_callback(lambda _: sys.exit(3))
        future.add_done_callback(lambda _: heard.set())
        s.resume()
        assert heard.wait(30)
        assert s.submit("select 1").result(30).rows_affected == 1


def test_a_callback_that_a_callback_adds_stops_nothing() -> None:
    first, second = (TaskFuture(_Elsewhere("a"), None, None) for _ in range(2))
    is_added, heard = threading.Event(), threading.Event()

    def add(_: object) -> None:
        second.add_done_callback(lambda _: sys.exit(3))
        second.add_done_callback(lambda _: heard.set())
        is_added.set()

    first.add_done_callback(add)
    result = Result(task_pb2.AsyncDone())
    _background.call(first.set_result, result)
    assert is_added.wait(30)
    _background.call(second.set_result, result)
    assert heard.wait(30)
    assert _background.run(asyncio.sleep(0, "alive")) == "alive"


async def test_asyncio_waits_for_futures(rallypoint: Client) -> None:
    async with AsyncScheduler(rallypoint) as s:
        futures: list[Any] = [s.submit("select pg_sleep(0.1)") for _ in range(3)]
        done, left = await asyncio.wait(futures, timeout=30)
        assert (done, left) == (set(futures), set())
        never: Any = s.submit("select pg_sleep(0.5)")
        assert await asyncio.wait([never], timeout=0.01) == (set(), {never})
        assert vars(never)["_done_callbacks"] == []


def test_a_loss_is_told_also_to_who_asks_late(
    rallypoint: Client, rallypoint_server: RallypointServer
) -> None:
    rallypoint.create_resource("late")
    holding = lock("late", client=rallypoint)
    hold = holding.__enter__()
    first, second = threading.Event(), threading.Event()
    hold.when_lost(lambda _: first.set())
    hold.when_lost(lambda _: sys.exit(3))
    claim = str(hold.claim)
    rallypoint_server.run("resource", "release", claim, "--force", "--reason", "x")
    assert first.wait(30)
    hold.when_lost(lambda _: second.set())
    assert second.wait(30)
    with pytest.raises(RallypointError):
        holding.__exit__(None, None, None)


def test_who_synchronizes_is_told_that_the_block_was_left(rallypoint: Client) -> None:
    said: list[str] = []
    s = Scheduler(rallypoint, on_exit="leave").open()
    future = s.submit("select pg_sleep(1)")

    def wait() -> None:
        try:
            s.synchronize()
        except RallypointError as error:
            said.append(str(error))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not (future.seq and s._core.ledger._waiters):
        pass
    s.close()
    thread.join(30)
    assert "the task goes on" in said[0]


def test_each_task_that_is_refused_has_an_error_of_its_own(rallypoint: Client) -> None:
    s = Scheduler(rallypoint, on_exit="leave").open()
    futures = s.map("select pg_sleep(1)", [(), ()])
    s.close()
    errors = [future.exception() for future in futures]
    assert errors[0] is not errors[1]
    assert str(errors[0]) == str(errors[1])


def test_of_an_enumeration_the_value_is_sent(rallypoint: Client) -> None:
    class Color(str, enum.Enum):  # noqa: UP042
        RED = "red"

    class Share(float, enum.Enum):
        HALF = 0.5

    with Scheduler(rallypoint) as s:
        spec = sql("select $1::text as c, $2::float8 as s", Color.RED, Share.HALF, rows=1)
        assert s.submit(spec).result(30).rows == [{"c": "red", "s": 0.5}]
