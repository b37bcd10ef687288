"""Runs of jobs that this program does."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import os
import socket
import time
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from answering import answering
from conftest import Face

from pytest_rallypoint import RallypointServer
from rallypoint import (
    CallError,
    ClaimedRun,
    Client,
    RunLost,
    _background,
    _runs,
    _servers,
    claim_run,
)
from rallypoint._leases import DEFAULT_LEASE, Lease
from rallypoint.v1 import job_pb2

JOBS = """
[jobs.{name}]
schedule = {{ cron = "0 0 1 1 *", time_zone = "UTC" }}
claimed = true
max_runtime = "{max_runtime}"
rerun = {{ max = 2, delay = "1s" }}
finish_target = "app"
"""


@pytest.fixture
def job(rallypoint_server: RallypointServer, tmp_path: Path) -> Iterator[str]:
    """A job that has a run waiting, and is finished on its target."""
    name = f"job-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "jobs.toml"
    file.write_text(JOBS.format(name=name, max_runtime="1h"))
    install = ("jobs", "install", "--url", rallypoint_server.admin_url)
    rallypoint_server.run(*install, "--login", "app")
    rallypoint_server.run("jobs", "apply", "--file", str(file))
    rallypoint_server.run("jobs", "run", name)
    yield name
    rallypoint_server.run("jobs", "delete", name)


async def test_a_decorated_function_does_the_run_once(
    face: Face, rallypoint: Client, job: str
) -> None:
    done: list[ClaimedRun] = []

    @claim_run(job, client=rallypoint)
    def in_threads(run: ClaimedRun, more: int) -> int:
        done.append(run)
        return more

    @claim_run(job, client=rallypoint)
    async def in_asyncio(run: ClaimedRun, more: int) -> int:
        done.append(run)
        return more

    async def nightly(more: int) -> int | None:
        return await in_asyncio(more) if face.is_async else in_threads(more)

    assert await nightly(7) == 7
    assert await nightly(8) is None
    (run,) = done
    assert (run.job, run.attempt, run.lost) == (job, 1, "it was given back")
    assert run.token > 0
    assert run.due <= datetime.datetime.now(datetime.UTC)
    assert in_threads.__name__ == "in_threads"


async def test_a_failure_is_said_and_the_run_offered_again(
    face: Face, rallypoint: Client, rallypoint_server: RallypointServer, job: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with face.block(claim_run(job, client=rallypoint)) as run:
            assert run is not None
            _ = 1 / 0
    while True:
        async with face.block(claim_run(job, client=rallypoint)) as again:
            if again is not None:
                break
    assert (again.due, again.attempt) == (run.due, 2)
    assert "division by zero" in rallypoint_server.run(
        "--json", "jobs", "get-run", job, run.due.isoformat()
    )


async def test_a_failure_is_said_whose_text_is_none(
    face: Face, claims: tuple[Client, list[job_pb2.FinishRunRequest]]
) -> None:
    client, finished = claims
    with pytest.raises(OSError, match="no file"):
        async with face.block(claim_run("a", client=client)):
            raise OSError("no file caf\udce9")
    assert [(said.failed, said.detail) for said in finished] == [(True, "OSError: no file caf?")]


async def test_a_failure_that_cannot_be_said_in_time_is_noted(
    face: Face,
    claims: tuple[Client, list[job_pb2.FinishRunRequest]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(_runs, "HURRY", 0.1)
    monkeypatch.setattr(ClaimedRun, "_answered", never)
    with pytest.raises(SystemExit) as raised:
        async with face.block(claim_run("a", client=claims[0])):
            raise SystemExit
    (note,) = raised.value.__notes__
    assert "that it failed could not be said within 0.1 s" in note


async def test_a_run_in_a_state_of_a_newer_service_is_not_claimed(face: Face) -> None:
    def claim(*_: Any) -> Any:
        return job_pb2.ClaimRunResponse(run=job_pb2.JobRun(state=99))  # type: ignore[arg-type]

    with answering() as service, Client(service.address) as client:
        service.answers(_runs._CLAIM_RUN, claim)
        async with face.block(claim_run("a", client=client)) as run:
            assert run is None


async def test_the_target_lets_a_run_be_finished_once(
    face: Face, rallypoint: Client, rallypoint_server: RallypointServer, job: str
) -> None:
    async with face.block(claim_run(job, client=rallypoint)) as run:
        with psycopg.connect(rallypoint_server.target_url) as connection:
            cursor: psycopg.Cursor[Any] = run.finish_in(connection)
            assert cursor.fetchone() == (run.token,)
        late = run.finish_statement.replace(f", {run.token},", f", {run.token + 1},")
        with (
            psycopg.connect(rallypoint_server.target_url) as connection,
            pytest.raises(psycopg.Error) as refused,
        ):
            connection.execute(late)
    assert refused.value.sqlstate == "RP005"


async def test_a_run_counts_as_lost_before_it_has_taken_too_long(
    face: Face, rallypoint: Client, rallypoint_server: RallypointServer, job: str, tmp_path: Path
) -> None:
    file = tmp_path / "short.toml"
    file.write_text(JOBS.format(name=job, max_runtime="5s"))
    rallypoint_server.run("jobs", "apply", "--file", str(file))
    was_lost = False
    with contextlib.suppress(RunLost):  # the service may have ended it by the end of the block
        # By its lease alone no renewal would be due for twenty minutes.
        async with face.block(claim_run(job, lease=3600, client=rallypoint)) as run:
            async with asyncio.timeout(60):
                while run.lost is None:
                    await asyncio.sleep(0.02)
            with pytest.raises(RunLost):
                run.check()
            was_lost = True
    assert was_lost


async def test_a_claim_whose_answer_was_slow_is_renewed_first(
    face: Face,
    rallypoint: Client,
    rallypoint_server: RallypointServer,
    job: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "short.toml"
    file.write_text(JOBS.format(name=job, max_runtime="30s"))
    rallypoint_server.run("jobs", "apply", "--file", str(file))
    # The call is made half a minute after it was begun: counted from then, the run has taken too
    # long already.
    late = iter([30.0])
    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() - next(late, 0))
    monkeypatch.setattr(_runs, "time", clock)
    async with face.block(claim_run(job, lease=3600, client=rallypoint)) as run:
        assert run.lost is None


async def test_what_was_seen_to_be_lost_remains_so() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def renew(limit: float) -> float | None:
        asked.set()
        await answered.wait()
        return None

    async def why(error: CallError) -> str | None:
        return None

    lease = Lease("it", 3, time.monotonic(), renew, why, None, "limit")
    heard: list[str] = []
    lease.when_lost(heard.append)
    await asked.wait()
    while (lost := lease.lost) is None:
        await asyncio.sleep(0.02)
    answered.set()
    async with asyncio.timeout(60):
        while not heard:
            await asyncio.sleep(0.02)
    assert (heard, lease.lost) == ([lost], lost)
    lease.when_lost(heard.append)
    assert heard == [lost, lost]


async def test_what_was_given_back_is_not_lost_later(caplog: pytest.LogCaptureFixture) -> None:
    async def renew(limit: float) -> float | None:
        return None

    async def why(error: CallError) -> str | None:
        return None

    lease = Lease("it", 60, time.monotonic(), renew, why, None, "limit")
    heard: list[str] = []
    lease.when_lost(heard.append)
    lease.stop()
    lease._since -= 120  # as if it were long ago
    for _ in range(2):
        assert lease.lost == "it was given back"
        lease.when_lost(heard.append)
        await asyncio.sleep(0)
    assert heard == []
    assert "is lost" not in caplog.text


def test_a_dead_connection_is_given_up_before_a_lease_is_lost() -> None:
    silence = (_servers._KEEPALIVE_MS + _servers._KEEPALIVE_TIMEOUT_MS) / 1000
    # The last renewal was sent a third of a lease before, and another one has a second.
    assert silence + 1 <= DEFAULT_LEASE * (0.9 - 1 / 3)


async def test_a_renewal_takes_no_longer_than_until_the_next_one_is_due() -> None:
    limits: list[float] = []

    async def renew(limit: float) -> float | None:
        limits.append(limit)
        raise CallError("DEADLINE_EXCEEDED", "no answer")

    async def why(error: CallError) -> str | None:
        return None

    lease = Lease("it", 60, time.monotonic(), renew, why, 3, "limit")
    async with asyncio.timeout(60):
        while lease.lost is None:
            await asyncio.sleep(0.02)
    assert lease.lost == "limit"
    assert 0 < max(limits) <= 1


async def test_what_cannot_be_claimed_is_refused(face: Face, rallypoint: Client) -> None:
    with pytest.raises(CallError) as raised:
        async with face.block(claim_run("no-such-job", client=rallypoint)):
            pass
    assert raised.value.reason == "JOB_NOT_FOUND"
    assert "claimed = true" in str(raised.value)
    with pytest.raises(ValueError, match="job: give the name"):
        claim_run(lambda: None)  # type: ignore[arg-type]


async def test_a_run_that_nobody_took_is_offered_again(
    rallypoint: Client, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming = claim_run(job, lease=1, client=rallypoint)
    with monkeypatch.context() as patch:

        def press(future: concurrent.futures.Future[Any], _: object) -> None:
            patch.undo()
            concurrent.futures.wait([future], 30)
            raise KeyboardInterrupt

        patch.setattr(_background, "wait_until_done", press)
        with pytest.raises(KeyboardInterrupt):
            claiming.__enter__()
    run = None
    while run is None:  # the lease of the first one ends
        with claim_run(job, client=rallypoint) as run:
            pass


async def test_a_decorated_coroutine_function_makes_tasks(rallypoint: Client, job: str) -> None:
    @claim_run(job, client=rallypoint)
    async def nightly(run: ClaimedRun) -> str:
        return run._claim.owner

    assert await asyncio.create_task(nightly()) == f"{socket.gethostname()}:{os.getpid()}"
