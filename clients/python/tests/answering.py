"""A service in the process of the tests, which answers as a test says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from rallypoint._methods import Method

Handler = Callable[[Any, Any], Any]
# Streams that are open and calls under way; each takes a thread.
_AT_A_TIME = 32


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # it has no types
    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def service(self, details: Any) -> Any:
        return self.handlers.get(details.method)


class Answering:
    """Methods of the service, and its address."""

    def __init__(self) -> None:
        self._methods = _Methods()
        self._server = grpc.server(ThreadPoolExecutor(_AT_A_TIME), handlers=[self._methods])
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def answers(self, method: Method[Any, Any], handler: Handler) -> None:
        """A method that answers once: with what the handler returns."""
        self._methods.handlers[method.path] = grpc.unary_unary_rpc_method_handler(
            handler, method.request.FromString, method.response.SerializeToString
        )

    def streams(self, method: Method[Any, Any], handler: Handler) -> None:
        """A method that answers with a stream: with what the handler yields."""
        self._methods.handlers[method.path] = grpc.unary_stream_rpc_method_handler(
            handler, method.request.FromString, method.response.SerializeToString
        )

    def stop(self) -> None:
        """Ends it, and all calls."""
        self._server.stop(None).wait()


@contextlib.contextmanager
def answering() -> Iterator[Answering]:
    """One for a block."""
    service = Answering()
    try:
        yield service
    finally:
        service.stop()
