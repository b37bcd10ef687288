"""Streams that break again and again, many of them, and what their errors say of an effect."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from answering import Answering, answering

from rallypoint import CallError, Client, _background, _methods, _servers, lock
from rallypoint._connection import Connection
from rallypoint.v1 import resource_pb2, scheduler_pb2, task_pb2
from rallypoint.wire import status_pb2


@pytest.fixture
def service() -> Iterator[Answering]:
    with answering() as service:
        yield service


def connection_to(service: Answering, retry_timeout: float = 0.2) -> Connection:
    return Client(service.address, retry_timeout=retry_timeout).connection()


async def last_event(connection: Connection, most: int) -> int:
    """How many events a stream tells that goes on behind the last one."""
    last = 0

    def request() -> scheduler_pb2.SynchronizationRequest:
        return scheduler_pb2.SynchronizationRequest(after=last)

    stream = connection.resumed(
        _methods.SYNCHRONIZATION, request, is_news=lambda message: bool(message.done)
    )
    async with contextlib.aclosing(stream):
        async for message in stream:
            last = max([last, *(done.done_no for done in message.done)])
            if last == most:
                break
    return last


def test_a_stream_that_breaks_whenever_it_has_told_what_was_known_fails_in_the_end(
    service: Answering,
) -> None:
    opened = itertools.count(1)

    def tell(_: Any, context: Any) -> Iterator[Any]:
        next(opened)
        yield scheduler_pb2.SynchronizationResponse(pending=1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "it breaks")

    service.streams(_methods.SYNCHRONIZATION, tell)
    with pytest.raises(CallError, match="it breaks"):
        _background.run(last_event(connection_to(service), 1))
    assert next(opened) > 2


def test_a_stream_that_breaks_behind_each_event_goes_on(service: Answering) -> None:
    def tell(request: Any, context: Any) -> Iterator[Any]:
        event = task_pb2.AsyncDone(done_no=request.after + 1)
        yield scheduler_pb2.SynchronizationResponse(done=[event])
        context.abort(grpc.StatusCode.UNAVAILABLE, "it breaks")

    service.streams(_methods.SYNCHRONIZATION, tell)
    begun, retry_timeout = time.monotonic(), 0.2
    assert _background.run(last_event(connection_to(service, retry_timeout), 20)) == 20
    # Each of the pauses is at least half of the first one.
    assert time.monotonic() - begun > retry_timeout


def test_a_claim_whose_stream_breaks_at_each_place_in_line_is_granted(service: Answering) -> None:
    places = iter(range(20, 0, -1))

    def acquire(_: Any, context: Any) -> Iterator[Any]:
        claim = resource_pb2.Claim(claim=1, token=1, state=resource_pb2.CLAIM_STATE_WAITING)
        claim.position = next(places, 0)
        if claim.position:
            yield resource_pb2.AcquireResponse(claim=claim)
            context.abort(grpc.StatusCode.UNAVAILABLE, "it breaks")
        claim.state = resource_pb2.CLAIM_STATE_HELD
        yield resource_pb2.AcquireResponse(claim=claim)

    def release(*_: Any) -> Any:
        released = resource_pb2.Claim(claim=1, end=resource_pb2.CLAIM_END_RELEASED)
        return resource_pb2.ReleaseResponse(claim=released)

    service.streams(_methods.ACQUIRE, acquire)
    service.answers(_methods.RELEASE, release)
    # Each of the pauses is at least half of the first one: all of them are longer than this.
    with Client(service.address, retry_timeout=0.2) as client, lock("orders", client=client):
        pass


def test_an_error_with_details_that_cannot_be_read_is_heard(service: Answering) -> None:
    status = status_pb2.Status()
    status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff")

    def refuse(_: Any, context: Any) -> Any:
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "a proxy says no")

    def tell(request: Any, context: Any) -> Iterator[Any]:
        yield refuse(request, context)

    service.answers(_methods.DESCRIBE_SCHEDULER, refuse)
    service.streams(_methods.SYNCHRONIZATION, tell)
    connection = connection_to(service)
    described = scheduler_pb2.DescribeSchedulerRequest()
    for waiting in (
        connection.call(_methods.DESCRIBE_SCHEDULER, described),
        last_event(connection, 1),
    ):
        with pytest.raises(CallError, match="PERMISSION_DENIED: a proxy says no"):
            _background.run(asyncio.wait_for(waiting, 30))


@pytest.mark.parametrize("is_known", [False, True])
def test_who_is_refused_after_a_loss_is_not_told_that_nothing_was_claimed(
    service: Answering, is_known: bool
) -> None:
    asked: list[str] = []

    def acquire(request: Any, context: Any) -> Iterator[Any]:
        asked.append(request.request_id)
        if len(asked) > 1:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not any more")
        if is_known:
            yield resource_pb2.AcquireResponse()
        context.abort(grpc.StatusCode.UNAVAILABLE, "it breaks")

    service.streams(_methods.ACQUIRE, acquire)
    request = resource_pb2.AcquireRequest(request_id="one")

    async def claim() -> None:
        async for _ in connection_to(service, 30).resumed(_methods.ACQUIRE, lambda: request):
            pass

    with pytest.raises(CallError, match="not any more") as refused:
        _background.run(claim())
    assert refused.value.is_unknown
    assert (refused.value.request_id, asked) == ("one", ["one", "one"])


def test_a_grant_that_cannot_be_confirmed_may_be_a_hold(service: Answering) -> None:
    held = resource_pb2.Claim(claim=7, token=1, state=resource_pb2.CLAIM_STATE_HELD)
    held.hold_left.seconds = 60
    released = threading.Event()

    def acquire(*_: Any) -> Iterator[Any]:
        yield resource_pb2.AcquireResponse(claim=held)
        released.wait(30)

    def renew(_: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not any more")

    def release(*_: Any) -> Any:
        released.set()
        return resource_pb2.ReleaseResponse()

    service.streams(_methods.ACQUIRE, acquire)
    service.answers(_methods.RENEW, renew)
    service.answers(_methods.RELEASE, release)
    with Client(service.address) as client, pytest.raises(CallError) as refused:
        lock("orders", client=client).__enter__()
    assert refused.value.is_unknown
    assert released.wait(30)


def test_a_stream_that_nobody_can_read_is_closed(
    service: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, ended = threading.Event(), threading.Event()
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "rallypoint-stream":
            assert opened.wait(30)
            raise RuntimeError("can't start new thread")
        start(thread)

    def tell(_: Any, context: Any) -> Iterator[Any]:
        context.add_callback(ended.set)
        opened.set()
        yield scheduler_pb2.SynchronizationResponse()
        ended.wait(30)

    service.streams(_methods.SYNCHRONIZATION, tell)
    connection = connection_to(service)
    request = scheduler_pb2.SynchronizationRequest()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            _background.run(connection.open(_methods.SYNCHRONIZATION, request))
    assert connection.servers.pick().channel.with_room().open_streams == 0
    assert ended.wait(30)


def test_who_is_cancelled_hears_it_though_the_answer_is_there(
    service: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connection_to(service)
    request = scheduler_pb2.DescribeSchedulerRequest()

    async def is_cancelled() -> bool:
        async def answered(*_: object) -> scheduler_pb2.DescribeSchedulerResponse:
            calling.cancel()
            return scheduler_pb2.DescribeSchedulerResponse()

        monkeypatch.setattr(connection, "_repeated", answered)
        call = connection.call(_methods.DESCRIBE_SCHEDULER, request, limit=30.0)
        calling = asyncio.create_task(call)
        await asyncio.wait([calling])
        return calling.cancelled()

    assert asyncio.run(is_cancelled())


def test_more_streams_than_a_connection_has_room_for_get_another_one(
    service: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: list[str] = []
    is_over = threading.Event()

    def tell(_: Any, context: Any) -> Iterator[Any]:
        peers.append(context.peer())
        yield scheduler_pb2.SynchronizationResponse()
        is_over.wait(30)

    def describe(_: Any, context: Any) -> Any:
        peers.append(context.peer())
        return scheduler_pb2.DescribeSchedulerResponse()

    service.streams(_methods.SYNCHRONIZATION, tell)
    service.answers(_methods.DESCRIBE_SCHEDULER, describe)
    monkeypatch.setattr(_servers, "_MAX_STREAMS", 2)
    connection = connection_to(service)
    request = scheduler_pb2.SynchronizationRequest()

    async def open_all() -> None:
        streams = []
        for _ in range(5):
            _, messages = await connection.open(_methods.SYNCHRONIZATION, request)
            await anext(messages)
            streams.append(messages)
        streams.pop(1).close()  # leaves room
        _, messages = await connection.open(_methods.SYNCHRONIZATION, request)
        await anext(messages)
        described = scheduler_pb2.DescribeSchedulerRequest()
        await connection.call(_methods.DESCRIBE_SCHEDULER, described)
        for stream in [*streams, messages]:
            stream.close()

    try:
        _background.run(open_all())
    finally:
        is_over.set()
    first, second, third = peers[0], peers[2], peers[4]
    assert len({first, second, third}) == 3
    assert peers == [first, first, second, second, third, first, first]
