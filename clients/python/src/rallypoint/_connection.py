"""Calls, repeated while their outcome is unknown, and streams, opened again when they break.

It uses the stack of grpcio for threads and not grpc.aio, which disturbs other event loops of the
process (docs/decisions/0200). What is awaited here runs on the background thread.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic

import grpc

from rallypoint._backoff import Backoff
from rallypoint._details import after_unknown, call_error, is_of_the_server, unavailable
from rallypoint._methods import Method, Request, Response
from rallypoint._servers import Pick, Servers, Transport
from rallypoint._token import Token
from rallypoint.errors import CallError

log = logging.getLogger("rallypoint")

# Messages of a stream that were read and not taken.
_READ_AHEAD = 8
# A stream that was open for so many seconds is no failure that goes on, whatever it has said.
_STEADY = 5.0


class Connection:
    """How the service is reached, and as whom."""

    def __init__(
        self,
        servers: Servers,
        token: Token | None,
        metadata: dict[str, str],
        retry_timeout: float,
    ) -> None:
        self.servers = servers
        self.retry_timeout = retry_timeout
        self._token = token
        self._metadata = tuple(metadata.items())

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What is sent with every call."""
        if self._token is None:
            return self._metadata
        return (*self._metadata, ("authorization", self._token.bearer()))

    async def call(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        limit: float | None = None,
        busy_timeout: Callable[[], float] = lambda: 0.0,
    ) -> Response:
        """Calls until the outcome is known, for as long as the retry timeout.

        `limit`: seconds that the call may take in all, its repetitions included. `busy_timeout`:
        see `Backoff`.
        """
        timeout = self.retry_timeout if limit is None else min(self.retry_timeout, limit)
        repeated = self._repeated(method, request, lambda: Backoff(timeout, busy_timeout))
        if limit is None:
            return await repeated
        try:
            # `asyncio.wait_for` of Python 3.11 may swallow that the caller is cancelled.
            async with asyncio.timeout(limit):
                return await repeated
        except TimeoutError:
            text = f"{method.name}: no answer within {limit:g} s"
            raise CallError("DEADLINE_EXCEEDED", text, is_unknown=True) from None

    async def _repeated(
        self, method: Method[Request, Response], request: Request, begin: Callable[[], Backoff]
    ) -> Response:
        payload = request.SerializeToString()
        clock = asyncio.get_running_loop().time
        backoff, was_unknown = begin(), False
        while True:
            begun = clock()
            try:
                pick = self.servers.pick()
            except CallError as closed:
                closed.request_id = getattr(request, "request_id", None) or None
                raise after_unknown(closed, was_unknown) from None
            try:
                start = pick.channel.unary(method.path)
                answer = await _answer(start, payload, self.metadata())
                return method.response.FromString(answer)
            except CallError as error:
                error.request_id = getattr(request, "request_id", None) or None
                error.server = self.servers.text
                is_final = not error.is_retryable
                failed = after_unknown(error, was_unknown, is_delete=method.is_delete)
            was_unknown = failed.is_unknown
            if clock() - begun > self.servers.longest_silence:
                # A server was there all the while: this is a new failure.
                backoff = begin()
            has_other = self._has_other(pick, failed)
            if is_final and not has_other:
                raise failed
            await backoff.wait(failed, at_once=has_other)
            log.info("%s is called again after: %s", method.name, _brief(failed))

    def _has_other(self, pick: Pick, error: CallError) -> bool:
        """Whether another server may answer, or this one when it is shown another certificate."""
        if error.code == "UNAUTHENTICATED":
            return self.servers.was_renewed(pick)
        return is_of_the_server(error) and self.servers.failed(pick)

    async def open(
        self, method: Method[Request, Response], request: Request
    ) -> "tuple[Pick, Messages[Response]]":
        """Opens a stream; which server it comes from, and its messages."""
        pick, payload = self.servers.pick(), request.SerializeToString()
        transport = pick.channel.with_room()
        try:
            call = transport.open(method.path, payload, self.metadata())
        except ValueError as error:  # the channel is closed
            raise unavailable(str(error)) from None
        try:
            return pick, Messages(call, method.response.FromString, transport)
        except BaseException:  # no thread can be started
            call.cancel()
            transport.end()
            raise

    async def resumed(
        self,
        method: Method[Request, Response],
        request: Callable[[], Request],
        *,
        is_news: Callable[[Response], bool] = lambda _: False,
    ) -> AsyncGenerator[Response, None]:
        """The messages of a stream, which is opened again when it breaks.

        `request` says anew each time where to go on. It ends by being closed, or with an error
        that is final. `is_news`: whether a message was surely not known before; then what fails
        from there on is another failure.
        """
        clock = asyncio.get_running_loop().time
        backoff, was_unknown = Backoff(self.retry_timeout), False
        while True:
            sent, opened, received, has_news = request(), clock(), 0, False
            request_id = getattr(sent, "request_id", None) or None
            try:
                pick, messages = await self.open(method, sent)
            except CallError as closed:
                raise after_unknown(closed, was_unknown) from None
            try:
                async for message in messages:
                    received += 1
                    has_news = has_news or is_news(message)
                    yield message
                failed = unavailable("the stream ended without a reason")
            except CallError as error:
                failed = error
            finally:
                messages.close()
            failed.server, failed.request_id = self.servers.text, request_id
            is_final, has_other = not failed.is_retryable, self._has_other(pick, failed)
            if request_id is not None:  # it begins something, and has done so by its first message
                failed = after_unknown(failed, was_unknown or received > 0)
                was_unknown = failed.is_unknown
            if is_final and not has_other:
                raise failed
            # The first message may say what was known before, each time the stream is opened.
            was_there = received > 0 and clock() - opened > _STEADY
            if received > 1 or was_there or has_news:
                backoff = Backoff(self.retry_timeout)
            await backoff.wait(failed, at_once=has_other)
            log.info("%s is opened again after: %s", method.name, _brief(failed))


def _brief(error: CallError) -> str:
    return f"{error.code} {error.reason or error.message}"


async def _answer(
    start: Callable[..., Any], payload: bytes, metadata: tuple[tuple[str, str], ...]
) -> bytes:
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[bytes] = loop.create_future()

    def settle(call: Any) -> None:
        if answered.done():
            return
        if call.code() is grpc.StatusCode.OK:
            answered.set_result(call.result())
        else:
            answered.set_exception(call_error(call))

    try:
        call = start(payload, metadata=metadata)
    except ValueError as error:  # the channel is closed
        raise unavailable(str(error)) from None
    call.add_done_callback(lambda call: _soon(loop, settle, call))
    try:
        return await answered
    except asyncio.CancelledError:
        call.cancel()
        raise


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
        loop.call_soon_threadsafe(function, *args)


class Messages(Generic[Response]):
    """The messages of one stream, read by a thread that is a little ahead."""

    def __init__(self, call: Any, parse: Callable[[bytes], Response], transport: Transport) -> None:
        self._call, self._parse, self._transport = call, parse, transport
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | CallError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD)
        self._closed = False
        threading.Thread(target=self._read, name="rallypoint-stream", daemon=True).start()

    def _read(self) -> None:
        end: CallError | None = None
        try:
            for message in self._call:
                self._room.acquire()
                if self._closed:
                    return
                _soon(self._loop, self._queue.put_nowait, message)
        except grpc.RpcError as error:
            end = call_error(error)
        _soon(self._loop, self._queue.put_nowait, end)

    def __aiter__(self) -> "Messages[Response]":
        return self

    async def __anext__(self) -> Response:
        message = await self._queue.get()
        if message is None:
            raise StopAsyncIteration
        if isinstance(message, CallError):
            raise message
        self._room.release()
        return self._parse(message)

    def close(self) -> None:
        """Ends the stream, if it has not ended. Called once."""
        self._closed = True
        self._transport.end()
        self._call.cancel()
        self._room.release()
