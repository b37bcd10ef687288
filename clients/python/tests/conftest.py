"""What the tests share: both faces of the package behind one, and a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psycopg
import pytest
from answering import answering

from pytest_rallypoint import RallypointServer
from rallypoint import AsyncClient, AsyncScheduler, Client, Scheduler, TaskFuture, _runs
from rallypoint.v1 import job_pb2

pytest_plugins = ["pytester"]

TIMEOUT = 60.0
# These do not wait, and are the same for both.
DIRECT = {"submit", "order", "show_progress"}


class Awaited:
    """Something for threads, called as what is for asyncio."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Any:
        entered = self._inner.__enter__()
        return self if entered is self._inner else entered

    async def __aexit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found) or name in DIRECT:
            return found

        async def called(*arguments: Any, **named: Any) -> Any:
            return found(*arguments, **named)

        return called


class Face:
    """The package as programs of one kind see it."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async

    def scheduler(self, *arguments: Any, **named: Any) -> Any:
        if self.is_async:
            return AsyncScheduler(*arguments, **named)
        return Awaited(Scheduler(*arguments, **named))

    def client(self, *arguments: Any, **named: Any) -> Any:
        if self.is_async:
            return AsyncClient(*arguments, **named)
        return Awaited(Client(*arguments, **named))

    def block(self, context: Any) -> Any:
        """`lock(…)` and others, which are for `with` and for `async with`."""
        return context if self.is_async else Awaited(context)

    async def result(self, future: TaskFuture) -> Any:
        """The result, or the error raised, as each kind of program gets it."""
        if self.is_async:
            return await asyncio.wait_for(future, TIMEOUT)
        return future.result(TIMEOUT)

    async def error(self, future: TaskFuture) -> Any:
        """The error."""
        try:
            result = await self.result(future)
        except Exception as error:
            return error
        raise AssertionError(f"it succeeded: {result}")


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Face:
    return Face(request.param == "async")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that are coroutines run in a loop of their own."""
    if not asyncio.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    test: Callable[..., Coroutine[Any, Any, None]] = pyfuncitem.obj
    coroutine = test(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(coroutine, TIMEOUT))
    return True


@pytest.fixture
def database(rallypoint_server: RallypointServer) -> Iterator[psycopg.Connection[Any]]:
    """The database of the target."""
    with psycopg.connect(rallypoint_server.target_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def table(database: psycopg.Connection[Any]) -> Iterator[str]:
    """A table `seen (id int, at timestamptz)`, empty."""
    database.execute("drop table if exists seen")
    database.execute("create table seen (id int, at timestamptz default clock_timestamp())")
    yield "seen"
    database.execute("drop table seen")


@pytest.fixture
def claims() -> Iterator[tuple[Client, list[job_pb2.FinishRunRequest]]]:
    """A service that has a run for everybody, and how runs were finished."""
    finished: list[job_pb2.FinishRunRequest] = []

    def claim(request: Any, _: Any) -> Any:
        answer = job_pb2.ClaimRunResponse()
        answer.run.job, answer.claim.token = request.name, 1
        return answer

    def finish(request: Any, _: Any) -> Any:
        finished.append(request)
        return job_pb2.FinishRunResponse()

    with answering() as service, Client(service.address) as client:
        service.answers(_runs._CLAIM_RUN, claim)
        service.answers(_runs._FINISH_RUN, finish)
        yield client, finished
