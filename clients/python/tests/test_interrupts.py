"""Ctrl-C, and what asyncio cancels, at the moments at which much could be left behind."""

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import psycopg
import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    AsyncScheduler,
    Client,
    Scheduler,
    _background,
    _methods,
    lock,
    shared,
    try_acquire,
)
from rallypoint._waiting import Future
from rallypoint.v1 import scheduler_pb2


class TooLate:
    """Interrupts what waits when its result is there, and has not been taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._futures: list[concurrent.futures.Future[Any]] = []

    async def interrupt(self, face: Face, waiting: Coroutine[Any, Any, object]) -> None:
        if face.is_async:
            await self._cancel(waiting)
        else:
            await self._press(waiting)

    async def _cancel(self, waiting: Coroutine[Any, Any, object]) -> None:
        def spy() -> Any:
            self._futures.append(Future())
            return self._futures[-1]

        with self._monkeypatch.context() as patch:
            patch.setattr(_background, "Future", spy)
            task = asyncio.create_task(waiting)
            await asyncio.sleep(0)
        (future,) = self._futures
        assert concurrent.futures.wait([future], 30).done  # and the loop has not seen it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def _press(self, waiting: Coroutine[Any, Any, object]) -> None:
        with self._monkeypatch.context() as patch:

            def press(future: concurrent.futures.Future[Any], _: object) -> None:
                patch.undo()
                assert concurrent.futures.wait([future], 30).done
                raise KeyboardInterrupt

            patch.setattr(_background, "wait_until_done", press)
            with pytest.raises(KeyboardInterrupt):
                await waiting


@pytest.fixture
def too_late(monkeypatch: pytest.MonkeyPatch) -> TooLate:
    return TooLate(monkeypatch)


async def test_a_lock_that_nobody_took_is_given_back(
    face: Face, rallypoint: Client, too_late: TooLate
) -> None:
    rallypoint.create_resource("nobodys")
    for mine in (lock("nobodys", client=rallypoint), try_acquire("nobodys", client=rallypoint)):
        too_late._futures.clear()
        await too_late.interrupt(face, face.block(mine).__aenter__())
        async with face.block(lock("nobodys", owner="other", wait=5, client=rallypoint)):
            pass
        async with face.block(mine) as again:
            assert again is not None


async def test_the_end_of_a_lock_goes_on(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it is cancelled before it begins."""
    rallypoint.create_resource("ending")
    mine = lock("ending", owner="a", client=rallypoint)
    await face.block(mine).__aenter__()
    if face.is_async:
        leaving = asyncio.create_task(mine.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    else:
        with monkeypatch.context() as patch:

            def press(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(_background, "wait_until_done", press)
            with pytest.raises(KeyboardInterrupt):
                mine.__exit__(None, None, None)
    async with face.block(lock("ending", owner="b", wait=5, client=rallypoint)):
        pass


async def test_a_scheduler_that_nobody_took_is_released(
    face: Face, rallypoint: Client, too_late: TooLate
) -> None:
    s = face.scheduler(rallypoint)
    await too_late.interrupt(face, s.__aenter__())
    while (await s.describe()).state != scheduler_pb2.SCHEDULER_STATE_RELEASED:
        await asyncio.sleep(0.01)


async def test_a_scheduler_nobody_has_heard_of_yet_is_released(
    rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service has opened it, and its caller is cancelled before the answer is there."""
    connection = rallypoint.connection()
    call = connection.call
    arrived = threading.Event()
    opened: list[str] = []

    async def unheard(method: Any, request: Any, **named: Any) -> Any:
        answer = await call(method, request, **named)
        if method is _methods.GET_SCHEDULER and not arrived.is_set():
            opened.append(answer.scheduler.handle)
            arrived.set()
            await asyncio.sleep(60)
        return answer

    monkeypatch.setattr(connection, "call", unheard)
    for reuse in (True, False):
        arrived.clear()
        opening = asyncio.create_task(
            AsyncScheduler(rallypoint, name=f"unheard-{reuse}", reuse=reuse).open()
        )
        assert await asyncio.to_thread(arrived.wait, 30)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    shared_one = AsyncScheduler(rallypoint, handle=opened[0], on_exit="cancel")
    async with shared_one, AsyncScheduler(rallypoint, handle=opened[1]) as own:
        while (await own.describe()).state != scheduler_pb2.SCHEDULER_STATE_RELEASED:
            await asyncio.sleep(0.01)
        # Others may use the one that was to be shared.
        assert (await shared_one.describe()).state == scheduler_pb2.SCHEDULER_STATE_OPEN


def press_while_it_waits(patch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, once the next thing has been waited for half a second."""

    def press(future: concurrent.futures.Future[Any], _: object) -> None:
        patch.undo()
        concurrent.futures.wait([future], 0.5)
        raise KeyboardInterrupt

    patch.setattr(_background, "wait_until_done", press)


async def test_ctrl_c_at_the_end_of_a_block_cancels_what_runs(
    face: Face, rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for how in ("drain", "wait"):
        s = face.scheduler(rallypoint, on_exit=how, max_parallelism=1)
        if face.is_async:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5), s:
                    futures = await s.map("select pg_sleep($1::float)", [60, 60])
        else:
            with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
                async with s:
                    futures = await s.map("select pg_sleep($1::float)", [60, 60])
                    press_while_it_waits(patch)
        assert [future.cancelled() for future in futures] == [True, True]


async def test_who_stops_waiting_for_tasks_of_others_leaves_them_alone(
    face: Face,
    rallypoint: Client,
    database: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database.execute("select pg_advisory_lock(4711)")
    async with face.scheduler(rallypoint) as s:
        theirs = s.submit("select pg_advisory_lock(4711)")
        await s.describe()
        drained = face.scheduler(rallypoint, handle=s.handle, on_exit="drain")
        await drained.__aenter__()
        if face.is_async:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await drained.__aexit__(None, None, None)
        else:
            with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
                press_while_it_waits(patch)
                await drained.__aexit__(None, None, None)
        database.execute("select pg_advisory_unlock(4711)")
    assert (await face.result(theirs)).seq == 1


def test_the_interpreter_ends_though_a_block_is_open(
    rallypoint_server: RallypointServer,
) -> None:
    """Of a generator that nobody has ended: it is closed when no other thread runs any more."""
    code = """
from rallypoint import Client, Scheduler, noop

def results():
    with Scheduler(Client({url!r})) as s:
        for future in s.map(noop(), range(3)):
            yield future.result()

kept = results()
next(kept)
"""
    program = [sys.executable, "-c", code.format(url=rallypoint_server.url)]
    ended = subprocess.run(program, capture_output=True, check=False, text=True, timeout=30)
    assert ended.returncode == 0
    assert "the interpreter ends" in ended.stderr


def test_one_lock_object_is_for_one_block_at_a_time(rallypoint: Client) -> None:
    rallypoint.create_resource("permits", capacity=2)
    mine = lock(shared("permits"), client=rallypoint)
    meet, said = threading.Barrier(2), []

    def use() -> None:
        meet.wait()
        try:
            with mine:
                meet.wait(30)
        except Exception as error:
            said.append(str(error))
            meet.wait(30)

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["this lock is in use; make one for each block: lock('…')"]
    with lock(shared("permits", 2), wait=5, client=rallypoint):
        pass


def test_a_scheduler_is_opened_once(rallypoint: Client) -> None:
    s = Scheduler(rallypoint)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        opened = [pool.submit(s.open) for _ in range(2)]
        errors = [str(future.exception()) for future in opened if future.exception()]
    assert errors == ["the scheduler is open already; make another one"]
    s.close()
