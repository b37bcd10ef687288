"""What a client that is closed, and a program that ends, wait for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from answering import answering

from rallypoint import (
    AsyncClient,
    CallError,
    Client,
    RallypointError,
    Scheduler,
    _background,
    _client,
    _methods,
    _scheduler,
    _submission,
)
from rallypoint.v1 import scheduler_pb2


def test_a_client_waits_for_what_nobody_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []

    async def make() -> int:
        return 7

    async def give_back(made: int) -> None:
        await asyncio.sleep(0.1)
        given_back.append(made)

    def press(future: concurrent.futures.Future[Any], _: object) -> None:
        assert concurrent.futures.wait([future], 30).done
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_background, "wait_until_done", press)
        with pytest.raises(KeyboardInterrupt):
            _background.run(make(), give_back)
    Client("127.0.0.1:1").close()
    assert given_back == [7]


def test_a_client_is_closed_though_ctrl_c_comes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client("127.0.0.1:1")
    _background.run(asyncio.sleep(0))  # it has its thread

    def press(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_background, "wait_until_done", press)
        with pytest.raises(KeyboardInterrupt):
            client.close()
    with pytest.raises(CallError, match="the client is closed"):
        client.connection().servers.pick()


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_a_client_is_closed_though_a_callback_waits(
    kind: type[Client | AsyncClient],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_client, "_LAST_MOMENT", 0.1)
    is_over = threading.Event()
    _background.call(is_over.wait)
    client = kind("127.0.0.1:1")
    try:
        if (closing := client.close()) is not None:
            await closing
    finally:
        is_over.set()
    assert "a callback of a future waits; what was being given back (at least " in caplog.text
    with pytest.raises(CallError, match="the client is closed"):
        client.connection().servers.pick()


def test_a_scheduler_that_is_being_opened_at_ctrl_c_is_released_before_the_program_ends() -> None:
    asked, released = threading.Event(), threading.Event()

    def get(request: Any, context: Any) -> Any:
        if not asked.is_set():
            asked.set()
            while context.is_active():
                time.sleep(0.01)
        opened = scheduler_pb2.Scheduler(handle=request.request_id)
        return scheduler_pb2.GetSchedulerResponse(scheduler=opened)

    def release(request: Any, _: Any) -> Any:
        assert request.mode == scheduler_pb2.RELEASE_MODE_FINISH
        released.set()
        return scheduler_pb2.ReleaseSchedulerResponse()

    with answering() as service:
        service.answers(_methods.GET_SCHEDULER, get)
        service.answers(_methods.RELEASE_SCHEDULER, release)
        code = (
            "from rallypoint import Scheduler, _client, _given_up; "
            "_client._LAST_MOMENT = _given_up._TIMEOUT = 30; "
            f"Scheduler('{service.address}', name='a').open()"
        )
        program = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        assert asked.wait(30)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=30)
    assert "KeyboardInterrupt" in said
    assert released.is_set()


def test_a_program_with_the_default_client_ends_though_a_callback_does_not() -> None:
    code = """
import atexit, time
atexit.register(lambda: print(client.connection().servers.is_closed))  # the last one to be called
from rallypoint import _background, _client
give_back = _client._give_back
_client._give_back = lambda: (print("waits"), give_back())
client = _client.client_of(None)
_background.call(time.sleep, 3600)
"""
    program = [sys.executable, "-c", code]
    ended = subprocess.run(program, check=True, timeout=60, capture_output=True, text=True)
    assert ended.stdout.split() == ["waits", "True"]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_block_that_cannot_cancel_its_tasks_submits_no_more(
    monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    submitting, ended = threading.Event(), threading.Event()
    is_followed: list[bool] = []

    def get(*_: Any) -> Any:
        opened = scheduler_pb2.Scheduler(handle="a")
        return scheduler_pb2.GetSchedulerResponse(scheduler=opened, reused=is_shared)

    def submit(_: Any, context: Any) -> Any:
        if not is_followed:
            return scheduler_pb2.ExecAsyncResponse(first_seq=1)
        submitting.set()
        while context.is_active():
            time.sleep(0.01)
        ended.set()
        return scheduler_pb2.ExecAsyncResponse(first_seq=2)

    def follow(_: Any, context: Any) -> Iterator[Any]:
        is_followed.append(True)
        yield scheduler_pb2.SynchronizationResponse(pending=1)
        while context.is_active():
            time.sleep(0.01)

    def refuse(_: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNAVAILABLE, "away")

    for module in (_scheduler, _submission):
        monkeypatch.setattr(module, "HURRY", 0.2)
    with answering() as service, Client(service.address) as client:
        service.answers(_methods.GET_SCHEDULER, get)
        service.answers(_methods.EXEC_ASYNC, submit)
        service.streams(_methods.SYNCHRONIZATION, follow)
        for method in (_methods.CANCEL_TASK, _methods.RELEASE_SCHEDULER):
            service.answers(method, refuse)
        with contextlib.suppress(KeyError), Scheduler(client, name="a", reuse=is_shared) as s:
            s.submit("select 1")
            while not is_followed:
                time.sleep(0.01)
            unheard = s.submit("select 2")
            assert submitting.wait(30)
            raise KeyError
        with pytest.raises(RallypointError, match="could not be cancelled"):
            unheard.result(0)
        sender = s._core.submission._sender
        assert sender is not None
        assert sender.done()
        assert ended.wait(30)
    assert is_followed == [True]
