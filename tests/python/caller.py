"""Calls every server through stock grpcio, right and wrong, until stdin ends; prints each answer as a line of JSON.

    python3 caller.py 127.0.0.1:50051,127.0.0.1:50052

It judges nothing: whoever reads the lines does. tests/node/caller.js does the same.
"""

import json
import sys
import threading
import time

import grpc
import stubs  # makes the modules of rallypoint.v1
from google.protobuf import empty_pb2
from rallypoint.v1 import scheduler_pb2 as pb
from rallypoint.v1 import scheduler_pb2_grpc, status_pb2, status_pb2_grpc, task_pb2

NOBODY = "01890000-0000-7000-8000-000000000000"
TIMEOUT = 20
CALLER = [("rallypoint-caller", "stock")]
KEEPALIVE = [("grpc.keepalive_time_ms", 2000), ("grpc.keepalive_timeout_ms", 2000)]
QUICK_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]

stopped = threading.Event()


def tell(call, wanted, code, error=None, cancelled=False):
    """`wanted`: the code, and the reason when it is an error."""
    details = dict(error.trailing_metadata() or ()) if error else {}
    reason = details.get("grpc-status-details-bin", b"")
    line = {
        "call": call,
        "wanted": wanted[0],
        "code": code,
        "with_reason": len(wanted) > 1 and wanted[1].encode() in reason,
        "cancelled": cancelled,
        "message": error.details() if error else "",
    }
    print(json.dumps(line), flush=True)


def ask(call, request, *wanted, timeout=TIMEOUT, name=None):
    """Makes a unary call; returns the answer, or None."""
    name = name or type(request).__name__.removesuffix("Request")
    try:
        answer = call(request, timeout=timeout, metadata=CALLER)
        tell(name, wanted, "OK")
        return answer
    except grpc.RpcError as error:
        tell(name, wanted, error.code().name, error)
        return None


def read(client, handle):
    """Reads a stream to its end."""
    stream = client.Synchronization(pb.SynchronizationRequest(handle=handle), timeout=TIMEOUT)
    wanted = ("NOT_FOUND", "HANDLE_NOT_FOUND") if handle == NOBODY else ("OK",)
    try:
        for _ in stream:
            pass
        tell("Synchronization", wanted, "OK")
    except grpc.RpcError as error:
        tell("Synchronization", wanted, error.code().name, error)


def cancel(client, handle):
    """A stream that its caller cancels."""
    forever = pb.SynchronizationRequest(handle=handle, until=pb.Until(forever=empty_pb2.Empty()))
    stream = client.Synchronization(forever, timeout=TIMEOUT)
    threading.Timer(0.02, stream.cancel).start()
    try:
        for _ in stream:
            pass
        tell("Cancelled", ("CANCELLED",), "OK", cancelled=True)
    except grpc.RpcError as error:
        tell("Cancelled", ("CANCELLED",), error.code().name, error, cancelled=True)


def converse(client, status):
    ask(status.GetStatus, status_pb2.GetStatusRequest(), "OK")
    ask(client.ExecAsync, pb.ExecAsyncRequest(handle="x"), "INVALID_ARGUMENT", "ID_MALFORMED")
    ask(client.DescribeScheduler, pb.DescribeSchedulerRequest(handle=NOBODY), "NOT_FOUND", "HANDLE_NOT_FOUND")
    ask(client.GetTask, pb.GetTaskRequest(), "INVALID_ARGUMENT", "ID_MALFORMED")
    many = [task_pb2.Task(noop=task_pb2.NoopTask()) for _ in range(10_001)]
    ask(client.ExecAsync, pb.ExecAsyncRequest(handle=NOBODY, tasks=many), "INVALID_ARGUMENT", "TOO_MANY_TASKS")
    read(client, NOBODY)
    opened = ask(client.GetScheduler, pb.GetSchedulerRequest(), "OK")
    if opened is None:
        return
    handle = opened.scheduler.handle
    tasks = [task_pb2.Task(noop=task_pb2.NoopTask(), order=order) for order in (1, 1, 2)]
    ask(client.ExecAsync, pb.ExecAsyncRequest(handle=handle, tasks=tasks), "OK")
    cancel(client, handle)
    for ms in (1, 5, 10):
        request = pb.ExecAsyncRequest(handle=handle, tasks=tasks[2:])
        ask(client.ExecAsync, request, "DEADLINE_EXCEEDED", timeout=ms / 1000, name="Hurried")
    read(client, handle)
    if ask(client.ReleaseScheduler, pb.ReleaseSchedulerRequest(handle=handle, wait=True), "OK") is None:
        return
    late = pb.ExecAsyncRequest(handle=handle, tasks=tasks)
    ask(client.ExecAsync, late, "FAILED_PRECONDITION", "HANDLE_RELEASED", name="Late")


def serve_stdin():
    sys.stdin.read()
    stopped.set()


def main(addresses):
    threading.Thread(target=serve_stdin, daemon=True).start()
    channels = [grpc.insecure_channel(address, KEEPALIVE + QUICK_RECONNECT) for address in addresses]
    while not stopped.is_set():
        for channel in channels:
            converse(scheduler_pb2_grpc.SchedulerServiceStub(channel), status_pb2_grpc.StatusServiceStub(channel))
        time.sleep(0.02)


main(sys.argv[1].split(","))
