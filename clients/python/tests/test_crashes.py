"""A server that is killed, and one that goes away: what the program sees of it."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    CallError,
    Client,
    _background,
    _methods,
    _scheduler,
    _submission,
    lock,
    sql,
)
from rallypoint.v1 import resource_pb2

TASKS = 3_000


@pytest.fixture(scope="module")
def victim(rallypoint_program: str) -> Iterator[RallypointServer]:
    server = RallypointServer(rallypoint_program)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def server(victim: RallypointServer) -> RallypointServer:
    """A server that a test may kill."""
    return victim if victim.is_running else victim.start()


def test_a_server_that_runs_is_not_started_again(server: RallypointServer) -> None:
    with pytest.raises(RuntimeError, match=r"^it runs: stop\(\) or kill\(\) it before"):
        server.start()
    assert server.is_running


async def test_a_kill_of_the_server_is_not_seen(face: Face, server: RallypointServer) -> None:
    """Tasks are submitted and their results read while it is killed twice (kill -9)."""
    text = "insert into once values ($1) returning id"
    with psycopg.connect(server.target_url, autocommit=True) as connection:
        connection.execute("drop table if exists once; create table once (id int)")
        server.run("prepare-target", "--login", "app", "--url", server.admin_url)
    kills: list[int] = []
    async with face.scheduler(Client(server.url)) as s:

        def kill() -> None:
            for ended in (TASKS // 10, TASKS // 2):
                while s.progress.done < ended:
                    time.sleep(0.001)
                server.kill()
                kills.append(s.progress.done)
                server.start()

        killer = threading.Thread(target=kill)
        killer.start()
        spec = sql(text, delivery="exactly_once")
        futures = []
        for first in range(0, TASKS, 10):
            futures += await s.map(spec, range(first, first + 10))
            if first % 100 == 0:
                await face.result(futures[-1])
        killer.join()
        results = [await face.result(future) for future in futures]
    assert len(kills) == 2
    assert max(kills) < TASKS, "there was work left to do"
    assert [result.rows_affected for result in results] == [1] * TASKS
    assert sorted(future.seq for future in futures) == list(range(1, TASKS + 1))
    with psycopg.connect(server.target_url) as connection:
        counted = connection.execute("select count(*), count(distinct id) from once").fetchone()
    assert counted == (TASKS, TASKS), "none is lost, and none is done twice"


async def test_a_lock_survives_a_kill(face: Face, server: RallypointServer) -> None:
    client = Client(server.url)
    client.create_resource("orders")
    async with face.block(lock("orders", lease=30, client=client)) as hold:
        server.kill()
        server.start()
        hold.check()
        async with face.scheduler(client) as s:
            await face.result(s.submit("select 1"))
        hold.check()


async def test_a_server_that_stays_away_is_told(
    face: Face, server: RallypointServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rallypoint")
    with pytest.raises(CallError) as lost:
        async with face.scheduler(Client(server.url, retry_timeout=0.5)) as s:
            running = s.submit("select pg_sleep(60)")
            while not running.seq:
                await s.describe()
            server.kill()
            error = await face.error(running)
            unsent = await face.error(s.submit("select 1"))
            raise error
    assert lost.value.code == "UNAVAILABLE"
    assert lost.value.is_unknown
    assert "Is the server running" in str(lost.value)
    assert unsent.is_unknown
    assert unsent.request_id
    assert any("cannot be cancelled" in record.message for record in caplog.records)


async def test_ctrl_c_does_not_wait_for_a_server_that_is_away(
    face: Face,
    server: RallypointServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_scheduler, "HURRY", 0.2)
    monkeypatch.setattr(_submission, "HURRY", 0.2)
    client, begun = Client(server.url), time.monotonic()
    for how in ("drain", "wait"):
        caplog.clear()
        if not server.is_running:
            server.start()
        with pytest.raises(KeyError):
            async with face.scheduler(client, on_exit=how) as s:
                running = s.submit("select pg_sleep(60)")
                while not running.seq:
                    await s.describe()
                server.kill()
                raise KeyError
        assert "cannot be cancelled" in caplog.text
        assert "the block was left" in str(await face.error(running))
    # Each of them is repeated for so long otherwise.
    assert time.monotonic() - begun < client.connection().retry_timeout
    client.close()


async def test_a_closed_client_is_of_no_use(face: Face, server: RallypointServer) -> None:
    client = Client(server.url, retry_timeout=5)
    with pytest.raises(CallError, match="the client is closed"):
        async with face.scheduler(client) as s:
            left = s.submit("select pg_sleep(60)")
            while not left.seq:
                await s.describe()
            client.close()
            raise await face.error(left)


async def test_of_several_servers_the_next_one_is_used(face: Face, rallypoint: Client) -> None:
    async with face.scheduler(f"127.0.0.1:1,{rallypoint.server}") as s:
        assert (await face.result(s.submit("select 1"))).rows_affected == 1


class Cable:
    """A way to a server whose connections can go silent: they stay, and nothing arrives."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._silent = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        """Those that there are; not those that come."""
        self._silent.set()
        self._silent = threading.Event()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(self._to)
                for ends in ((here, there), (there, here)):
                    pump = (*ends, self._silent)
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, silent: threading.Event) -> None:
        with source, contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not silent.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_has_gone_silent_is_given_up(server: RallypointServer) -> None:
    """Within seconds: a lock with the usual lease is not lost by it."""
    settings = resource_pb2.ResourceSettings(capacity=1)
    request = resource_pb2.CreateResourceRequest(name="silent", settings=settings)
    with contextlib.closing(Cable(server.url)) as cable, Client(cable.address) as client:
        assert client.create_resource("silent")
        cable.go_silent()
        call = client.connection().call(_methods.CREATE_RESOURCE, request, limit=30)
        assert _background.run(call).already_exists
