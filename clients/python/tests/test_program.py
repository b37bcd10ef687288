"""Whole programs: the example, Ctrl-C, a fork, one that ends without a word."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_rallypoint import RallypointServer
from rallypoint import Client, Scheduler, _background

EXAMPLES = Path(__file__).parent.parent / "examples"
WAITS = """
from rallypoint import Scheduler
with Scheduler() as s:
    future = s.submit("select pg_sleep(60)")
    while not future.seq:
        pass
    print(s.handle, flush=True)
    future.result()
"""


def start(server: RallypointServer, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "RALLYPOINT_SERVER": server.url}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_series_of_the_example(rallypoint_server: RallypointServer) -> None:
    example = EXAMPLES / "series.py"
    code = [line for line in example.read_text().split('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 10
    begun = time.monotonic()
    process = start(rallypoint_server, str(example), "0.02")
    _, said = process.communicate(timeout=60)
    took = time.monotonic() - begun
    assert process.returncode == 0, said
    assert "10/10 done" in said
    assert took >= 0.02 * (10.1 + 9.2 + 8.3 + 7.4 + 6.5), "orders wait for each other"


def test_ctrl_c_cancels_what_runs(rallypoint_server: RallypointServer) -> None:
    process = start(rallypoint_server, "-c", WAITS)
    assert process.stdout is not None
    handle = process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "cancelled" in rallypoint_server.run("tasks", handle)


def test_a_program_may_end_without_a_word(rallypoint_server: RallypointServer) -> None:
    code = "from rallypoint import Scheduler, lock; s = Scheduler().open(); s.submit('select 1')"
    process = start(rallypoint_server, "-c", code)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


def test_a_program_that_makes_no_call_ends_without_the_background_thread() -> None:
    code = """
import atexit
from rallypoint import Scheduler, _background, lock
atexit.register(lambda: print(_background.is_running()))  # called behind those that follow
Scheduler(), lock("a")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "False\n", "")


def test_a_program_that_finds_no_server_says_so_soon() -> None:
    code = "from rallypoint import Client, Scheduler\n"
    code += "Scheduler(Client('127.0.0.1:1', retry_timeout=5)).open()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no answer yet; calling for 5 s in all: UNAVAILABLE" in ended.stderr
    what_to_do = (
        "Is the server running, and is 127.0.0.1:1 its address? Another one is given to the client "
        "or scheduler, or by RALLYPOINT_SERVER."
    )
    assert ended.stderr.rstrip().endswith(what_to_do)


ALONE = "from rallypoint import Scheduler\nScheduler(client).open()"
AWAITED = """import asyncio
from rallypoint import AsyncScheduler
async def main():
    await AsyncScheduler(client).open()
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [ALONE, AWAITED])
def test_an_error_of_a_call_does_not_show_where_in_the_package_it_comes_from(program: str) -> None:
    code = "from rallypoint import Client\nclient = Client('127.0.0.1:1', retry_timeout=0.1)\n"
    ended = subprocess.run([sys.executable, "-c", code + program], capture_output=True, text=True)
    assert "rallypoint.CallError: UNAVAILABLE" in ended.stderr
    _, _, trace = ended.stderr.partition("Traceback")
    assert trace.count("  File ") <= 7, ended.stderr
    assert "_connection.py" not in trace
    assert "_backoff.py" not in trace
    assert "During handling" not in trace


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_client_from_before_a_fork_says_so(rallypoint: Client) -> None:
    code = f"""
import os, sys
from rallypoint import Client, Scheduler, RallypointError
client = Client({rallypoint.server!r})
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
try:
    Scheduler(client).open()
except RallypointError as error:
    assert "make one in this one" in str(error)
    with Scheduler({rallypoint.server!r}) as s:
        assert s.submit("select 1").result(30).rows_affected == 1
    os._exit(7)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 7, ended.stderr


FORKS = """
import os
from rallypoint import Client, HoldLost, RallypointError, Scheduler, lock

class Leaves(BaseException):
    pass

def leave():
    raise Leaves

client = Client()
client.create_resource("forked")
try:
    with client, lock("forked", client=client) as hold, Scheduler() as s:
        running = s.submit("select pg_sleep(1)")
        def use():
            for wait in (s.synchronize, running.result, running.cancel, lambda: s.submit("a")):
                try:
                    wait()
                except RallypointError as error:
                    assert "from which this one was forked" in str(error), error
                else:
                    os._exit(2)
            try:
                hold.check()
            except HoldLost as error:
                assert "from which this one was forked" in str(error), error
                os._exit(7)
        for work in (use, leave):
            child = os.fork()
            if not child:
                work()
            # gRPC's threads do not survive a fork, of which it sometimes dies (SIGABRT).
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (7, -6)
        assert running.result(30).rows_affected == 1
        hold.check()
except Leaves:
    os._exit(7)
print("left", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_leaves_alone_what_its_parent_has(
    rallypoint_server: RallypointServer,
) -> None:
    process = start(rallypoint_server, "-W", "ignore", "-c", FORKS)
    try:
        shown, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, shown) == (0, "left\n"), said


def test_whoever_closes_the_client_is_not_warned_of_its_streams(
    rallypoint_server: RallypointServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rallypoint")
    client = Client(rallypoint_server.url)
    scheduler = Scheduler(client=client).open()
    scheduler.submit("select 1").result(30)

    async def close() -> None:
        client.connection().servers.close()

    _background.run(close())
    for _ in range(300):
        lost = [record for record in caplog.records if "is lost" in record.getMessage()]
        if lost:
            break
        time.sleep(0.1)
    assert [record.levelname for record in lost] == ["INFO"]
