"""What is wrong is said before anything is sent, with the name of the argument and the remedy."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rallypoint
from rallypoint import RallypointError, Tls, lock, noop, shared

# Types that are wrong are tried here all the same.
AsyncScheduler: Any = rallypoint.AsyncScheduler
Client: Any = rallypoint.Client
Retry: Any = rallypoint.Retry
Scheduler: Any = rallypoint.Scheduler
sql: Any = rallypoint.sql

# Nobody listens there: what was sent would fail otherwise.
NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: sql(7), TypeError, "statement: give SQL as a str, not 7"),
        (lambda: sql("  "), ValueError, "statement: it is empty"),
        (lambda: sql("select '\0'"), ValueError, "statement: it holds a NUL character"),
        (lambda: sql("x" * (1 << 20) + "x"), ValueError, "statement: it is longer than 1 MiB"),
        (lambda: sql("a", object()), TypeError, r"params: \$1: a object is no value of SQL here"),
        (lambda: sql("a", 1, "\0"), ValueError, r"params: \$2 holds a NUL character"),
        (lambda: sql("a", *range(32_768)), ValueError, "params: 32768 values"),
        (lambda: sql("a", order=-1), ValueError, "order: -1 is not from 0 to 9007199254740991"),
        (lambda: sql("a", order="1"), TypeError, "order: give a whole number, not '1'"),
        (lambda: sql("a", target=1), TypeError, "target: give the name of a target"),
        (lambda: sql("a", timeout="1s"), TypeError, "timeout: give seconds as a number"),
        (lambda: sql("a", timeout=-1), ValueError, "timeout: -1 seconds is out of range"),
        (lambda: sql("a", rows=10_001), ValueError, "rows: how many to keep, 0 to 10000"),
        (lambda: sql("a", retry="often"), TypeError, "retry: give a Retry or the total"),
        (
            lambda: sql("a", retry=Retry(initial_backoff="x")),
            TypeError,
            "retry.initial_backoff: give seconds",
        ),
        (lambda: sql("a", delivery="twice"), ValueError, "delivery: 'twice' is none of at_least"),
        (lambda: sql("a", isolation="x"), ValueError, "isolation: 'x' is none of read_committed"),
        (lambda: sql("a", search_path="x"), TypeError, r"give a list of schemas, like \['x'\]"),
        (lambda: sql("a", labels={"a": 1}), TypeError, "labels: keys and values are str"),
        (
            lambda: sql("a", not_before=datetime.datetime(2026, 1, 1)),
            ValueError,
            "not_before: .* has no time zone",
        ),
        (lambda: sql("a", timeuot=1), TypeError, "timeuot: no such option; there are delivery"),
        (lambda: sql("a", resources=["x", "x"]), ValueError, "resources: 1 to 16 resources, each"),
        (lambda: noop(b"x" * (1 << 21)), ValueError, "payload: 2097152 bytes; 1 MiB at most"),
        (lambda: Scheduler(NOWHERE, max_parallelism=0), ValueError, "to start none, pause"),
        (lambda: Scheduler(NOWHERE, weight=0), ValueError, "weight: 0.01 to 1000, not 0"),
        (lambda: Scheduler(NOWHERE, on_failure="x"), ValueError, "on_failure: 'x' is none of"),
        (lambda: Scheduler(NOWHERE, reuse=True), ValueError, "reuse: it needs a name"),
        (lambda: Scheduler(NOWHERE, on_exit="x"), ValueError, "on_exit: 'x' is none of drain"),
        (lambda: Scheduler(NOWHERE, handle="h", name="n"), ValueError, "handle: a scheduler"),
        (lambda: Scheduler(NOWHERE, paralelism=1), TypeError, "paralelism: no such setting"),
        (
            lambda: AsyncScheduler(NOWHERE, default_options={"time": 1}),
            TypeError,
            "time: no such option",
        ),
        (lambda: Client("localhost"), ValueError, "has no port; the usual one is 50051"),
        (lambda: Client("ftp://x:1"), ValueError, "an address is like http://127.0.0.1:50051"),
        (lambda: Client("http://x:1/path"), ValueError, "an address is like"),
        (lambda: Client("127.0.0.1:99999"), ValueError, "a port is at most 65535"),
        (lambda: sql("a", resources="abc"), TypeError, r"a list of resources, like \['abc'\]"),
        (lambda: Client(" , "), ValueError, "server: no address"),
        (lambda: Client(50051), TypeError, "server: give an address like"),
        (lambda: Client("http://db:1", token="t"), ValueError, "in plain text, for others to"),
        (lambda: Client("http://127.0.0.1.db:1", token="t"), ValueError, "in plain text"),
        (lambda: Client(NOWHERE, token="a b"), ValueError, "token: a token is printable ASCII"),
        (lambda: Client(NOWHERE, token="a", token_file="b"), ValueError, "token_file: give it or"),
        (lambda: Client(NOWHERE, token_file="/nowhere"), ValueError, "/nowhere cannot be read"),
        (lambda: Client(NOWHERE, caller="ä"), ValueError, "caller: 'ä' is not printable ASCII"),
        (lambda: Client(NOWHERE, tls=Tls(ca="x")), ValueError, "in plain text; write https"),
        (lambda: Client("https://x", tls=Tls(ca="/no")), ValueError, "tls.ca: /no cannot be read"),
        (lambda: Client("https://x", tls=Tls(cert="a")), ValueError, "needs its key"),
        (lambda: Client(NOWHERE, retry_timeout=None), TypeError, "retry_timeout: give seconds"),
        (lambda: lock(client=NOWHERE), ValueError, "resources: 1 to 16 resources"),
        (lambda: lock("", client=NOWHERE), ValueError, "a resource has a name of 1 to 255 bytes"),
        (lambda: lock(shared("a", 0), client=NOWHERE), ValueError, "0 permits of 'a'"),
        (lambda: lock("a", lease=0.5, client=NOWHERE), ValueError, "lease: 1 s to 1 h, not 0.5"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_a_scheduler_that_is_not_open_says_so() -> None:
    s = Scheduler(NOWHERE)
    assert repr(s) == "<Scheduler (not open), 0/0 done, 0.0 s>"
    assert repr(lock("a", shared("b"), client=NOWHERE)) == "lock('a', 'b')"
    for use in (lambda: s.submit("select 1"), lambda: s.map("select 1", []), s.synchronize):
        with pytest.raises(RallypointError, match="use it in a `with` block"):
            use()


def test_items_of_a_map_are_checked(rallypoint: Any) -> None:
    with Scheduler(rallypoint) as s:
        with pytest.raises(TypeError, match=r"params of item 1: \$1: a object is no value"):
            s.map("select $1", [1, object()])
        with pytest.raises(TypeError, match="task: give sql"):
            s.submit(None)
        with pytest.raises(TypeError, match="order: give a whole number"), s.order(None):
            pass
        with pytest.raises(TypeError, match="settings: name at least one"):
            s.update()


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\nmore\n")
    for client in (Client(NOWHERE, token="s3cret"), Client(NOWHERE, token_file=file)):
        assert client._connection.metadata() == (("authorization", "Bearer s3cret"),)
        assert "s3cret" not in f"{client!r} {client._connection._token!r}"
    file.write_text("s3cret two")
    with pytest.raises(ValueError, match="printable") as raised:
        Client(NOWHERE, token_file=file)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("http://127.0.0.1:1", False),
        ("localhost:1", False),
        ("http://[::1]:1", False),
        ("https://db.example", False),
        ("http://db.example:1", True),
        ("http://10.0.0.1:1", True),
        ("127.0.0.1:1,http://db.example:1", True),
    ],
)
def test_a_token_is_not_sent_where_others_can_read_it(address: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ValueError, match="plain_text_token=True"):
            Client(address, token="secret")
    Client(address, token="secret", plain_text_token=True)


def test_what_is_left_out_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALLYPOINT_SERVER", "127.0.0.1:7,127.0.0.1:8")
    monkeypatch.setenv("RALLYPOINT_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RALLYPOINT_NAMESPACE", "etl")
    client = Client()
    assert client.server == "127.0.0.1:7,127.0.0.1:8"
    expected = (("rallypoint-namespace", "etl"), ("authorization", "Bearer secret"))
    assert client._connection.metadata() == expected
