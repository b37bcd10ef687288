"""Ctrl-C at each of the moments at which Python may raise it."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from answering import Answering, answering

from rallypoint import (
    Client,
    Scheduler,
    _background,
    _given_up,
    _methods,
    _runs,
    claim_run,
    lock,
    try_acquire,
)
from rallypoint._waiting import Future, wait_until_done
from rallypoint.v1 import job_pb2, resource_pb2, scheduler_pb2


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Objects of other tests would end in the middle, where an error is of no use."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_interrupted(at: int, function: Callable[[], object], *taken: Any) -> bool:
    """Interrupts a function at this moment; False: it was over before.

    As Ctrl-C does, which Python raises where functions begin and where calls have returned, but
    not where functions in Python have (`taken`: what these return matters).
    """
    codes = [function.__code__ for function in taken]
    passed = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal passed
        if "weakref" in frame.f_code.co_filename:
            return None  # called where an object ends, where an error is of no use
        if event == "call" or (event == "return" and frame.f_code not in codes):
            passed += 1
            if passed == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def each_moment(is_over: Callable[[int], bool]) -> None:
    assert next(at for at in range(1, 2_000) if is_over(at)) > 8


@pytest.mark.usefixtures("uncollected")
def test_an_interrupt_at_any_moment_leaves_a_future_whole() -> None:
    def waits(at: int) -> bool:
        future: Future[int] = Future()
        setting = threading.Timer(0.05, future.set_result, [7])
        setting.daemon = True
        setting.start()
        is_over = not is_interrupted(at, functools.partial(wait_until_done, future, 5))
        setting.join(5)
        assert not setting.is_alive(), f"interrupted at moment {at}, nobody can set the result"
        assert future.result(0) == 7
        return is_over

    each_moment(waits)


@pytest.mark.usefixtures("uncollected")
def test_an_interrupt_at_any_moment_leaves_no_result_to_nobody() -> None:
    made, given_back = 0, 0

    async def work() -> None:
        nonlocal made
        made += 1

    async def undo(_: None) -> None:
        nonlocal given_back
        given_back += 1

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def runs(at: int) -> bool:
        nonlocal made, given_back
        made = given_back = 0
        working = work()
        running = functools.partial(_background.run, working, undo)
        is_over = not is_interrupted(at, running, _background.run)
        _background.run(settled())
        working.close()  # of what never began
        assert made - given_back == int(is_over), f"interrupted at moment {at}"
        return is_over

    _background.run(settled())  # it has its thread
    each_moment(runs)


@pytest.mark.usefixtures("uncollected")
def test_an_interrupt_at_any_moment_leaves_nothing_unfinished() -> None:
    def finishes(at: int) -> bool:
        given_back = threading.Event()
        work = asyncio.to_thread(given_back.set)
        # The first one is before it begins.
        is_over = not is_interrupted(at + 1, functools.partial(_background.finish, work))
        assert given_back.wait(30), f"interrupted at moment {at}"
        return is_over

    _background.run(asyncio.sleep(0))  # it has its thread
    each_moment(finishes)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_an_interrupt_at_any_moment_leaves_no_lock_to_nobody(rallypoint: Client) -> None:
    rallypoint.create_resource("moments")

    def enters(at: int) -> bool:
        mine = lock("moments", owner="a", client=rallypoint)
        is_over = not is_interrupted(at, mine.__enter__, _background.run, lock.__enter__)
        if is_over:
            mine.__exit__(None, None, None)
        with lock("moments", owner="b", wait=10, client=rallypoint):
            return is_over

    each_moment(enters)


@pytest.mark.usefixtures("uncollected")
def test_an_interrupt_at_any_moment_leaves_no_task_unsent(rallypoint: Client) -> None:
    with Scheduler(rallypoint) as s:

        def submits(at: int) -> bool:
            is_over = not is_interrupted(at, functools.partial(s.submit, "select 1"))
            s.synchronize(timeout=30)
            assert s.submit("select 1").result(30).rows_affected == 1
            return is_over

        each_moment(submits)


@pytest.fixture
def service() -> Iterator[Answering]:
    with answering() as service:
        yield service


@pytest.mark.usefixtures("uncollected")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("error", [None, KeyError("of the block")])
def test_an_interrupt_at_any_moment_leaves_no_block_open(
    service: Answering, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setattr(_given_up, "_TIMEOUT", 30)
    ended: list[str] = []

    def acquire(*_: Any) -> Any:
        held = resource_pb2.Claim(claim=1, token=1, state=resource_pb2.CLAIM_STATE_HELD)
        return resource_pb2.TryAcquireResponse(claim=held)

    def release(*_: Any) -> Any:
        ended.append("lock")
        released = resource_pb2.Claim(claim=1, end=resource_pb2.CLAIM_END_RELEASED)
        return resource_pb2.ReleaseResponse(claim=released)

    def claim(*_: Any) -> Any:
        return job_pb2.ClaimRunResponse(claim=job_pb2.RunClaim(token=1))

    def finish(*_: Any) -> Any:
        ended.append("run")
        return job_pb2.FinishRunResponse()

    def get(*_: Any) -> Any:
        opened = scheduler_pb2.Scheduler(handle="a")
        return scheduler_pb2.GetSchedulerResponse(scheduler=opened)

    def close(*_: Any) -> Any:
        ended.append("scheduler")
        return scheduler_pb2.ReleaseSchedulerResponse()

    service.answers(_methods.TRY_ACQUIRE, acquire)
    service.answers(_methods.RELEASE, release)
    service.answers(_runs._CLAIM_RUN, claim)
    service.answers(_runs._FINISH_RUN, finish)
    service.answers(_methods.GET_SCHEDULER, get)
    service.answers(_methods.RELEASE_SCHEDULER, close)

    with Client(service.address) as client:

        def leaves(make: Callable[[], Any], what: str, at: int) -> bool:
            ended.clear()
            block = make()
            block.__enter__()
            kind = None if error is None else type(error)
            leaving = functools.partial(block.__exit__, kind, error, None)
            # The first one is before it begins.
            is_over = not is_interrupted(at + 1, leaving, type(block).__exit__)
            _background.run(_given_up.given_back())
            assert set(ended) == {what}, f"interrupted at moment {at}"
            # A scheduler may be released once more, by a call that was cancelled.
            assert len(ended) == 1 or what == "scheduler"
            return is_over

        each_moment(functools.partial(leaves, lambda: try_acquire("a", client=client), "lock"))
        each_moment(functools.partial(leaves, lambda: claim_run("a", client=client), "run"))
        each_moment(functools.partial(leaves, lambda: Scheduler(client), "scheduler"))
