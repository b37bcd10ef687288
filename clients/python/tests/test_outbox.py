"""`examples/outbox`: a task is submitted once, whatever dies on its way."""

from __future__ import annotations

import datetime
import http.server
import importlib.util
import subprocess
import threading
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


def test_a_renewed_authority_is_trusted(
    relay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.crt"
    monkeypatch.setenv("RALLYPOINT_TLS_CA", str(file))
    for name in ("before", "renewed"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", tmp_path / "ca.key",
             "-out", file],
            check=True, capture_output=True,
        )  # fmt: skip
        (authority,) = relay.tls().get_ca_certs()
        assert authority["subject"] == ((("commonName", name),),)


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


UNUSABLE = [
    ("AUTH_TOKEN_FILE", "/nowhere", "No such file"),
    ("AUTH_TOKEN", "a b", "without spaces"),
    ("NAMESPACE", "a\nb", "not printable"),
    ("TLS_CA", "/nowhere", "No such file"),
    ("TLS_KEY", __file__, "set both"),
    ("SERVER", "ftp://a", "'ftp://a' is no address like http://HOST:PORT"),
    ("SERVER", "53999", "is a port without a host; write http://127.0.0.1:53999"),
    ("SERVER", "127.0.0.1:1, 127.0.0.1:x", "'http://127.0.0.1:x' is no address"),
    ("SERVER", "http://[", "is no address"),
    ("SERVER", "http://127.0.0.1:1/path", "is no address"),
    ("SERVER", "http://127.0.0.1/", "'http://127.0.0.1' has no port; the usual one is 50051"),
]


@pytest.mark.parametrize(("variable", "value", "said"), UNUSABLE)
def test_a_variable_that_cannot_be_used_ends_the_relay(
    variable: str,
    value: str,
    said: str,
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
    (line,) = capsys.readouterr().err.splitlines()
    assert f"RALLYPOINT_{variable}: " in line
    assert said in line


def test_without_the_table_no_scheduler_is_opened(
    once: Any,
    connection: psycopg.Connection[Any],
    rallypoint_server: RallypointServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection.execute("alter table task_outbox rename to elsewhere")
    exit_code = once.main()
    connection.execute("alter table elsewhere rename to task_outbox")
    assert exit_code == 2
    said = "the database app has no table task_outbox; `psql -f outbox.sql` makes it\n"
    assert capsys.readouterr().err == said
    assert "outbox" not in rallypoint_server.run("list", "--state", "open")
    assert once.main() == 0


def test_a_database_that_is_away_is_said_in_a_line(
    relay: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.setattr("sys.argv", ["relay.py", "--once"])
    assert relay.main() == 1
    assert capsys.readouterr().err.startswith("the database: ")


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [(404, "<html>", "HTTP 404"), (400, '{"error": 1}', "HTTP 400"), (200, "hello", "line 1")],
)
def test_what_another_program_answers_is_no_word_about_a_task(
    code: int,
    body: str,
    said: str,
    once: Any,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    put(connection, "insert into made values (1)")
    once.relay(connection)
    put(connection, "insert into made values (2)")
    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other, monkeypatch.context() as wrong:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"
        wrong.setattr(once, "SERVER", url)
        assert once.main() == 1
        with pytest.raises(once.Unavailable):
            once.submit(connection.execute("select *, 'h' as handle from task_outbox").fetchone())
        other.shutdown()
    err = capsys.readouterr().err
    assert err.startswith(f"later: {url}: this is no answer of Rallypoint: ")
    assert said in err
    assert once.main() == 0
