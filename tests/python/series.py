"""The demo's series through a stock Python client: stubs generated from proto/ with grpcio-tools, nothing else.

    python3 series.py 127.0.0.1:50051 [--scale 0.1]

Exits 0 when every promise below held, and says so; otherwise the failed assertion is printed.
"""

import argparse
import threading
import time

import grpc
import stubs  # makes the modules of rallypoint.v1
from rallypoint.v1 import scheduler_pb2, scheduler_pb2_grpc, task_pb2

SERIES = [(100, 4, 10.1), (200, 2, 9.2), (300, 1, 8.3), (400, 2, 7.4), (500, 1, 6.5)]
TEN = list(range(1, 11))


def tasks(scale):
    """All ten tasks of the series, in orders."""
    for order, count, seconds in SERIES:
        for _ in range(count):
            sql = task_pb2.SqlTask(statement=f"select pg_sleep({seconds * scale:.6f})")
            yield task_pb2.Task(sql=sql, order=order)


def read(client, handle, after=0):
    """Every event of one Synchronization, and why the stream ended."""
    request = scheduler_pb2.SynchronizationRequest(handle=handle, after=after)
    done, reason = [], None
    for message in client.Synchronization(request, timeout=120):
        done.extend(message.done)
        if message.HasField("end"):
            reason = message.end.reason
    assert reason is not None, "the last message says why the stream ends"
    return done, reason


def numbers(done):
    return [event.done_no for event in done]


def in_parallel(read_one, count):
    """Runs `read_one` so many times at once and returns what each of them read."""
    results = [None] * count

    def run(index):
        results[index] = read_one()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def no_two_orders_overlap(done):
    starts, ends = {}, {}
    for event in done:
        order = event.effective_order
        starts[order] = min(starts.get(order, event.started_us), event.started_us)
        ends[order] = max(ends.get(order, 0), event.ended_us)
    orders = sorted(starts)
    return all(ends[low] <= starts[high] for low, high in zip(orders, orders[1:]))


def series(address, scale):
    with grpc.insecure_channel(address) as channel:
        client = scheduler_pb2_grpc.SchedulerServiceStub(channel)
        handle = client.GetScheduler(scheduler_pb2.GetSchedulerRequest()).scheduler.handle
        begun = time.monotonic()
        answer = client.ExecAsync(scheduler_pb2.ExecAsyncRequest(handle=handle, tasks=tasks(scale)))
        assert (answer.first_seq, answer.count, answer.done_no) == (1, 10, 0), answer

        both = in_parallel(lambda: read(client, handle), 2)
        took = time.monotonic() - begun
        for result in both:
            assert result is not None, "a stream broke: see above"
            done, reason = result
            assert numbers(done) == TEN, f"both streams get done_no 1..10: {numbers(done)}"
            assert all(event.outcome == task_pb2.OUTCOME_SUCCEEDED for event in done), done
            assert reason == scheduler_pb2.End.REASON_GOAL, reason
        assert sorted(event.seq for event in done) == TEN, "every task has one event"
        assert no_two_orders_overlap(done), "no two orders overlap"
        expected = sum(seconds for _, _, seconds in SERIES) * scale
        assert took >= expected, f"the series cannot take less than {expected} s: {took}"
        print(f"two streams on one handle: AsyncDone 1..10 each, {took:.3f} s of {expected:.3f} s expected")

        begun = time.monotonic()
        done, reason = read(client, handle, after=10)
        took = time.monotonic() - begun
        assert done == [] and reason == scheduler_pb2.End.REASON_GOAL and took < 1, (done, reason, took)
        print(f"a second Synchronization with nothing outstanding returned in {took * 1000:.1f} ms")

        assert numbers(read(client, handle, after=4)[0]) == [5, 6, 7, 8, 9, 10]
        print("resuming after 4 yields 5..10")

        released = client.ReleaseScheduler(scheduler_pb2.ReleaseSchedulerRequest(handle=handle))
        assert not released.already_released and released.pending == 0, released
        assert numbers(read(client, handle)[0]) == TEN, "events stay readable after the release"
        print("released; its events stay readable")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="host:port of a running server")
    parser.add_argument("--scale", type=float, default=0.1)
    arguments = parser.parse_args()
    series(arguments.address, arguments.scale)
