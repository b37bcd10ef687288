"""What a function returns that does a run, and how the run ends then."""

import asyncio
import concurrent.futures
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest
from conftest import Face

from rallypoint import ClaimedRun, Client, Result, TaskCancelled, TaskFuture, claim_run
from rallypoint._future import _Elsewhere
from rallypoint._returned import checked
from rallypoint.v1 import job_pb2, task_pb2

Claims: TypeAlias = tuple[Client, list[job_pb2.FinishRunRequest]]


async def do(face: Face, client: Client, work: Callable[[], object]) -> object:
    """Does a run by a function that returns what `work` does, without awaiting it."""

    @claim_run("a", client=client)
    def in_threads(_: ClaimedRun) -> object:
        return work()

    @claim_run("a", client=client)
    async def in_asyncio(_: ClaimedRun) -> object:
        return work()

    return await in_asyncio() if face.is_async else in_threads()


def task() -> TaskFuture:
    """That of a task which has not ended."""
    return TaskFuture(_Elsewhere("a"), None, None)


def how(finished: list[job_pb2.FinishRunRequest]) -> list[tuple[bool, str]]:
    return [(said.failed, said.detail) for said in finished]


async def test_a_run_whose_work_has_not_begun_is_not_done(face: Face, claims: Claims) -> None:
    client, finished = claims
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)

    for returned in (work, lambda: [work()]):
        with pytest.raises(TypeError, match="`await` it in an `async def` that has @claim_run"):
            await do(face, client, returned)
    with pytest.raises(TypeError, match="an object of map, whose"):
        await do(face, client, lambda: map(begun.append, [1]))
    assert begun == []
    assert [said.failed for said in finished] == [True] * 3


def test_no_coroutine_of_several_is_left_over() -> None:
    async def work() -> None:
        pass

    several = [work(), work()]
    with pytest.raises(TypeError, match="whose work has not begun"):
        checked(several)
    assert {inspect.getcoroutinestate(one) for one in several} == {inspect.CORO_CLOSED}


def test_a_generator_function_does_no_run() -> None:
    def lines(run: ClaimedRun) -> Iterator[int]:
        yield run.token

    async def more_lines(run: ClaimedRun) -> AsyncIterator[int]:
        yield run.token

    for generator in (lines, more_lines):
        with pytest.raises(TypeError, match="work: calling a generator function does nothing"):
            claim_run("a")(generator)


async def test_a_run_whose_function_returns_what_goes_on_is_not_done(
    face: Face, claims: Claims
) -> None:
    client, finished = claims

    def lines() -> Iterator[int]:
        yield 1

    async def more_lines() -> AsyncIterator[int]:
        yield 1

    class Later:
        def __await__(self) -> Iterator[None]:
            yield

    for work in (lines, more_lines, Later, task, concurrent.futures.Future[None]):
        for returned in (work, lambda work=work: ["", work()], lambda work=work: (7, work())):
            with pytest.raises(TypeError, match="do it inside the function"):
                await do(face, client, returned)
    assert [said.failed for said in finished] == [True] * 15


@pytest.mark.parametrize("make", [task, concurrent.futures.Future, asyncio.Future])
async def test_a_run_whose_function_returns_a_future_that_is_done_ends_as_that_did(
    face: Face, claims: Claims, make: Callable[[], Any]
) -> None:
    client, finished = claims
    good, bad = make(), make()
    good.set_result(Result(task_pb2.AsyncDone()))
    bad.set_exception(OSError("no file"))
    assert await do(face, client, lambda: good) is good
    assert await do(face, client, lambda: [good, 7]) == [good, 7]
    for returned in (lambda: bad, lambda: [good, bad]):
        with pytest.raises(OSError, match="no file"):
            await do(face, client, returned)
    assert how(finished) == [(False, "")] * 2 + [(True, "OSError: no file")] * 2


@pytest.mark.parametrize("make", [concurrent.futures.Future, asyncio.Future])
async def test_a_run_whose_function_returns_a_cancelled_future_fails(
    face: Face, claims: Claims, make: Callable[[], Any]
) -> None:
    client, finished = claims
    future = make()
    future.cancel()
    text = "the function returned an object of Future that was cancelled"
    with pytest.raises(concurrent.futures.CancelledError, match=text):
        await do(face, client, lambda: future)
    assert how(finished) == [(True, f"CancelledError: {text}")]


async def test_a_run_whose_function_returns_a_cancelled_task_says_why(
    face: Face, claims: Claims
) -> None:
    client, finished = claims
    future = task()
    future.set_exception(TaskCancelled("CANCELLED", "by an operator", seq=3))
    with pytest.raises(TaskCancelled, match="by an operator"):
        await do(face, client, lambda: future)
    assert how(finished) == [(True, "TaskCancelled: task 3: CANCELLED by an operator")]
