"""`examples/outbox`: a task is submitted once, whatever dies on its way."""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from pytest_rallypoint import RallypointServer

FOLDER = Path(__file__).parents[3] / "examples" / "outbox"


class Died(Exception):
    """The relay is gone."""


@pytest.fixture
def relay(rallypoint_server: RallypointServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("relay", FOLDER / "relay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SERVER", rallypoint_server.url)
    return module


@pytest.fixture
def once(relay: Any, rallypoint_server: RallypointServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The relay, whose `main` reads the table once."""
    url = rallypoint_server.target_url
    connect = psycopg.connect
    monkeypatch.setattr(relay.psycopg, "connect", lambda *_, **options: connect(url, **options))
    monkeypatch.setattr("sys.argv", ["relay.py", "--once"])
    return relay


@pytest.fixture
def connection(rallypoint_server: RallypointServer) -> Iterator[psycopg.Connection[Any]]:
    url = rallypoint_server.target_url
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("drop table if exists task_outbox, made")
        connection.execute((FOLDER / "outbox.sql").read_bytes())
        connection.execute("create table made (n int)")
        yield connection
        connection.execute("drop table task_outbox, made")
        rallypoint_server.run("release", "outbox")


def put(connection: psycopg.Connection[Any], statement: str, *params: str) -> None:
    row = [statement, list(params)]
    connection.execute("insert into task_outbox (statement, params) values (%s, %s)", row)


def made(connection: psycopg.Connection[Any], server: RallypointServer) -> list[int]:
    server.run("wait", "outbox")
    return [row["n"] for row in connection.execute("select n from made order by n").fetchall()]


def left(connection: psycopg.Connection[Any]) -> list[Any]:
    return connection.execute("select * from task_outbox").fetchall()


@pytest.mark.parametrize("age", [0, 20])
def test_a_relay_that_dies_after_it_has_submitted(
    age: int,
    relay: Any,
    connection: psycopg.Connection[Any],
    rallypoint_server: RallypointServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task that was offered long ago is looked for: its request id may be forgotten."""

    def die(*_: Any) -> None:
        raise Died

    put(connection, "insert into made values ($1)", "1")
    with monkeypatch.context() as dying:
        dying.setattr(relay, "forget", die)
        with pytest.raises(Died):
            relay.relay(connection)
    assert len(left(connection)) == 1
    moved = [datetime.timedelta(minutes=age)]
    connection.execute("update task_outbox set offered_at = offered_at - %s", moved)
    if age:
        monkeypatch.setattr(relay, "submit", die)
    assert relay.relay(connection) == (1, 1)
    assert left(connection) == []
    assert made(connection, rallypoint_server) == [1]


def test_a_relay_that_dies_before_it_submits_long_ago(
    relay: Any,
    connection: psycopg.Connection[Any],
    rallypoint_server: RallypointServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def die(*_: Any) -> None:
        raise Died

    put(connection, "insert into made values ($1)", "1")
    with monkeypatch.context() as dying:
        dying.setattr(relay, "submit", die)
        with pytest.raises(Died):
            relay.relay(connection)
    connection.execute("update task_outbox set offered_at = offered_at - interval '1 hour'")
    relay.relay(connection)
    assert made(connection, rallypoint_server) == [1]


def test_a_released_scheduler_is_replaced(
    relay: Any, connection: psycopg.Connection[Any], rallypoint_server: RallypointServer
) -> None:
    put(connection, "insert into made values (1)")
    relay.relay(connection)
    gone = relay.call("DescribeScheduler", {"handle": handle(relay)})["scheduler"]["handle"]
    rallypoint_server.run("release", gone)
    put(connection, "insert into made values (2)")
    connection.execute("update task_outbox set handle = %s, offered_at = now()", [gone])
    relay.relay(connection)
    assert [row["handle"] for row in left(connection)] == [None]
    relay.relay(connection)
    assert left(connection) == []
    assert made(connection, rallypoint_server)[-1] == 2


def handle(relay: Any) -> str:
    request = {"name": "outbox", "reuse": True, "settings": {}}
    found: str = relay.call("GetScheduler", request)["scheduler"]["handle"]
    return found


def test_a_task_that_is_refused_holds_up_nobody(
    relay: Any,
    connection: psycopg.Connection[Any],
    rallypoint_server: RallypointServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(connection, " ")
    put(connection, "insert into made values (7)")
    assert relay.relay(connection) == (2, 1)
    (refused,) = left(connection)
    assert "statement" in refused["error"]
    assert capsys.readouterr().err.startswith(f"refused: {refused['id']}: ")
    assert relay.relay(connection) == (0, 0)
    assert made(connection, rallypoint_server) == [7]


def test_a_service_that_is_away_is_called_again(
    relay: Any, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    relay.relay(connection)
    put(connection, "insert into made values (1)")
    with monkeypatch.context() as away:
        away.setattr(relay, "SERVER", "http://127.0.0.1:1")
        with pytest.raises(relay.Unavailable):
            relay.relay(connection)
    assert len(left(connection)) == 1
    assert relay.relay(connection) == (1, 1)


def test_once_fails_when_the_service_is_away(
    once: Any,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(connection, "insert into made values (1)")
    with monkeypatch.context() as away:
        away.setattr(once, "SERVER", "http://127.0.0.1:1")
        assert once.main() == 1
    assert "later: http://127.0.0.1:1: " in capsys.readouterr().err
    assert once.main() == 0
    assert "1 given to outbox" in capsys.readouterr().out


def test_a_relay_says_who_calls_as_the_command_line_does(
    relay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    monkeypatch.setenv("RALLYPOINT_AUTH_TOKEN_FILE", str(file))
    monkeypatch.setenv("RALLYPOINT_NAMESPACE", "etl")
    said = {"authorization": "Bearer secret", "rallypoint-namespace": "etl"}
    assert relay.who_calls() == said


def test_once_says_how_many_rows_wait_for_people(
    once: Any,
    connection: psycopg.Connection[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(connection, "")
    assert once.main() == 1
    assert "1 refused: see `error` in task_outbox" in capsys.readouterr().err
    connection.execute("update task_outbox set statement = 'select 1', error = null")
    assert once.main() == 0


def test_the_next_replica_is_asked_when_one_is_away(
    relay: Any,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = relay.SERVER.removeprefix("http://")
    monkeypatch.setattr(relay, "SERVER", f"127.0.0.1:1, {here}")
    put(connection, "insert into made values (1)")
    assert relay.relay(connection) == (1, 1)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AUTH_TOKEN_FILE", "/nowhere"), ("TLS_CA", "/nowhere"), ("SERVER", "ftp://a")],
)
def test_a_variable_that_cannot_be_used_ends_the_relay(
    variable: str,
    value: str,
    relay: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable == "SERVER":
        monkeypatch.setattr(relay, "SERVER", value)
    else:
        monkeypatch.setenv(f"RALLYPOINT_{variable}", value)
    monkeypatch.setattr("sys.argv", ["relay.py", "--once"])
    assert relay.main() == 2
    assert f"RALLYPOINT_{variable}: " in capsys.readouterr().err
