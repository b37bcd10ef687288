"""What is wrong is said before anything is sent, with the name of the argument and the remedy."""

import asyncio
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Face

import pytest_rallypoint
import rallypoint
from rallypoint import RallypointError, Tls, lock

# Types that are wrong are tried here all the same.
AsyncScheduler: Any = rallypoint.AsyncScheduler
Client: Any = rallypoint.Client
Retry: Any = rallypoint.Retry
Scheduler: Any = rallypoint.Scheduler
sql: Any = rallypoint.sql
noop: Any = rallypoint.noop
Lock: Any = rallypoint.lock
shared: Any = rallypoint.shared
ClaimRun: Any = rallypoint.claim_run
AnyTls: Any = Tls
Server: Any = pytest_rallypoint.RallypointServer

# Nobody listens there: what was sent would fail otherwise.
NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: sql(7), TypeError, "statement: give SQL as a str, not 7"),
        (lambda: sql("  "), ValueError, "statement: it is empty"),
        (lambda: sql("select '\0'"), ValueError, "statement: it holds a NUL character"),
        (lambda: sql("x" * (1 << 20) + "x"), ValueError, "statement: it is longer than 1 MiB"),
        (lambda: sql("a", object()), TypeError, r"params: \$1: a value of type object cannot"),
        (lambda: sql("a", 1, "\0"), ValueError, r"params: \$2 holds a NUL character"),
        (lambda: sql("a", "\ud800"), ValueError, r"params: \$1 is no text: surrogates"),
        (lambda: sql("a", *range(32_768)), ValueError, "params: 32768 values"),
        (lambda: sql("a", order=-1), ValueError, "order: -1 is not from 0 to 9007199254740991"),
        (lambda: sql("a", order="1"), TypeError, "order: give a whole number, not '1'"),
        (lambda: sql("a", target=1), TypeError, "target: give the name of a target"),
        (lambda: sql("a", timeout="1s"), TypeError, "timeout: give seconds as a number"),
        (lambda: sql("a", timeout=-1), ValueError, "timeout: -1 seconds is out of range"),
        (
            lambda: sql("a", rows=10_001),
            ValueError,
            "rows: how many to keep: 0 to 10000, not 10001",
        ),
        (lambda: sql("a", retry="often"), TypeError, "retry: give a Retry, or write retries=N"),
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
        (lambda: sql("a", timeuot=1), TypeError, "timeuot: no such option; did you mean timeout"),
        (lambda: sql("a", x=1), TypeError, "x: no such option; there are delivery, isolation"),
        (lambda: sql("a", retry=2), TypeError, "retry: give a Retry, or write retries=N, not 2"),
        (lambda: sql("a", max_retries=2), TypeError, "max_retries: no such option; write retries"),
        (lambda: sql("a", retries="2"), TypeError, "retries: more attempts: give a whole number"),
        (lambda: sql("a", resources=["x", "x"]), ValueError, "resources: 1 to 16 resources, each"),
        (lambda: noop(b"x" * (1 << 21)), ValueError, "payload: 2097152 bytes; 1 MiB at most"),
        (lambda: Scheduler(NOWHERE, max_parallelism=0), ValueError, "to start none, pause"),
        (lambda: Scheduler(NOWHERE, weight=0), ValueError, "weight: 0.01 to 1000, not 0"),
        (lambda: Scheduler(NOWHERE, on_failure="x"), ValueError, "on_failure: 'x' is none of"),
        (lambda: Scheduler("etl"), ValueError, "a scheduler is named by name='etl'"),
        (lambda: Scheduler(NOWHERE, reuse=True), ValueError, "reuse: it needs a name"),
        (lambda: Scheduler(NOWHERE, on_exit="x"), ValueError, "on_exit: 'x' is none of drain"),
        (lambda: Scheduler(NOWHERE, handle="h", name="n"), ValueError, "handle: a scheduler"),
        (lambda: Scheduler(NOWHERE, paralelism=1), TypeError, "did you mean max_parallelism"),
        (
            lambda: AsyncScheduler(NOWHERE, default_options={"time": 1}),
            TypeError,
            "time: no such option",
        ),
        (lambda: Client("localhost"), ValueError, "has no port; the usual one is 50051"),
        (lambda: Client("ftp://x:1"), ValueError, "an address is like http://127.0.0.1:50051"),
        (lambda: Client("53999"), ValueError, "and no address; write http://127.0.0.1:53999"),
        (lambda: Client("https://:7/"), ValueError, "and no address; write https://127.0.0.1:7"),
        (lambda: Client("x:1/path"), ValueError, "'x:1/path': an address has no path"),
        (lambda: Client("https://x/a?b"), ValueError, r"an address has no path; leave out /a\?b"),
        (lambda: Client("u:p@x:1"), ValueError, "^server: an address has no user and no password$"),
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
        (lambda: lock("a", 10, client=NOWHERE), TypeError, "10 is no name; .* as wait=10"),  # type: ignore[arg-type]
        (
            lambda: lock(shared("a", 0), client=NOWHERE),
            ValueError,
            "permits of 'a': 1 to 1000000, not 0",
        ),
        (lambda: lock("a", lease=0.5, client=NOWHERE), ValueError, "lease: 1 s to 1 h, not 0.5"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Scheduler(5), "client: give a Client or an address, not 5"),
        (lambda: Scheduler(NOWHERE, name=5), "name: give a str, not 5"),
        (lambda: Scheduler(NOWHERE, handle=5), "handle: give a str, not 5"),
        (lambda: Scheduler(NOWHERE, reuse="no"), "reuse: give True or False, not 'no'"),
        (lambda: Scheduler(NOWHERE, display_name=3), "display_name: give a str, not 3"),
        (lambda: Scheduler(NOWHERE, weight="a"), "weight: give a number, not 'a'"),
        (lambda: Scheduler(NOWHERE, max_parallelism="4"), "max_parallelism: give a whole number"),
        (lambda: Scheduler(NOWHERE, labels="x"), "labels: give a dict, not 'x'"),
        (lambda: Scheduler(NOWHERE, default_options="x"), "default_options: give a dict, not 'x'"),
        (lambda: Scheduler(NOWHERE).show_progress(interval="x"), "interval: give seconds"),
        (lambda: sql("a", role=1), "role: give a str, not 1"),
        (lambda: sql("a", read_only="no"), "read_only: give True or False, not 'no'"),
        (lambda: sql("a", search_path=[1]), "search_path: give a list of schemas, as str, not 1"),
        (lambda: sql("a", labels=["a"]), r"labels: give a dict, not \['a'\]"),
        (lambda: sql("a", rows="all"), "rows: how many to keep: give a whole number, not 'all'"),
        (lambda: sql("a", rows=True), "rows: how many to keep: give a whole number, not True"),
        (lambda: sql("a", retry=True), "retry: give a Retry, or write retries=N, not True"),
        (lambda: sql("a", retry=Retry("x")), "retry.max_attempts: give a whole number, not 'x'"),
        (lambda: sql("a", retry=Retry(max_losses=1.5)), "retry.max_losses: give a whole number"),
        (lambda: sql("a", retry=Retry(jitter="x")), "retry.jitter: give a number, not 'x'"),
        (
            lambda: sql("a", retry=Retry(backoff_multiplier="x")),
            "retry.backoff_multiplier: give a number, not 'x'",
        ),
        (
            lambda: sql("a", retry=Retry(non_retryable="23505")),
            r"retry.non_retryable: give a list of SQLSTATEs, like \['23505'\]",
        ),
        (
            lambda: sql("a", retry=Retry(non_retryable=[23505])),
            "retry.non_retryable: give a list of SQLSTATEs, as str, not 23505",
        ),
        (lambda: sql("a", resources=5), "resources: give a list of resources, not 5"),
        (lambda: sql("a", resources=[shared("b", "2")]), "permits of 'b': give a whole number"),
        (lambda: noop("text"), "payload: give bytes, not 'text'"),
        (lambda: Client(NOWHERE, token=5), "token: give a str, not 5"),
        (lambda: Client(NOWHERE, token_file=5), "token_file: give a path, not 5"),
        (lambda: Client(NOWHERE, tls="ca.crt"), r"tls: give Tls\(ca=…\), not 'ca.crt'"),
        (lambda: Client("https://x", tls=AnyTls(ca=5)), "tls.ca: give a path, not 5"),
        (lambda: Client(NOWHERE, namespace=5), "namespace: give a str, not 5"),
        (lambda: Client(NOWHERE, caller=5), "caller: give a str, not 5"),
        (lambda: Client(NOWHERE, plain_text_token="no"), "plain_text_token: give True or False"),
        (lambda: Client(NOWHERE).create_resource(5), "name: give a str, not 5"),
        (lambda: Client(NOWHERE).create_resource("a", "2"), "capacity: give a whole number"),
        (lambda: Client(NOWHERE).delete_resource(5), "name: give a str, not 5"),
        (lambda: Lock("a", owner=5, client=NOWHERE), "owner: give a str, not 5"),
        (lambda: Lock("a", reason=5, client=NOWHERE), "reason: give a str, not 5"),
        (lambda: Lock("a", labels=5, client=NOWHERE), "labels: give a dict, not 5"),
        (lambda: Lock("a", wait="x", client=NOWHERE), "wait: give seconds as a number"),
        (lambda: Lock("a", client=5), "client: give a Client or an address, not 5"),
        (lambda: ClaimRun("a", owner=5), "owner: give a str, not 5"),
        (lambda: Server("x", "--slots 4"), r"options: give a list, like \['--slots', '4'\]"),
    ],
)
def test_a_wrong_type_is_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sql("a", retries=-1), "retries: more attempts: 0 to 999, not -1"),
        (lambda: sql("a", retries=1, retry=Retry(2)), "retries, retry: give one of them"),
        (lambda: sql("a", retry=Retry(0)), "retry.max_attempts: 1 to 1000, not 0"),
        (lambda: sql("a", retry=Retry(jitter=2)), "retry.jitter: 0 to 1, not 2"),
        (lambda: sql("a", retry=Retry(max_losses=0)), "retry.max_losses: 1 to 1000, not 0"),
        (lambda: sql("a", retry=Retry(backoff_multiplier=0)), "backoff_multiplier: 1 to 100"),
        (lambda: Client(NOWHERE).create_resource("a", 0), "capacity: 1 to 1000000, not 0"),
    ],
)
def test_a_wrong_number_is_named(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


async def test_arguments_of_an_open_scheduler_are_named(face: Face, rallypoint: Any) -> None:
    async with face.scheduler(rallypoint) as s, face.scheduler(rallypoint) as other:
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("timeout: give seconds", lambda: s.synchronize(timeout="x")),
            ("future: give the future of a task that failed, not 'x'", lambda: s.retry("x")),
            ("ignore_failures: give True or False", lambda: s.resume(ignore_failures="no")),
            ("display_name: give a str, not 3", lambda: s.update(display_name=3)),
            (r"params: give a list of items, like \['abc'\]", lambda: s.map("select $1", "abc")),
            (r"params: give a list of items, like \[b'abc'\]", lambda: s.map(noop(), b"abc")),
            ("params: give a list of items, not 5", lambda: s.map(noop(), 5)),
        ]
        for text, call in calls:
            with pytest.raises(TypeError, match=text):
                await call()
        with pytest.raises(ValueError, match="payload of item 1: 1048577 bytes"):
            await s.map(noop(), [b"x", b"x" * 1_048_577])
        future = s.submit("select 1/0")
        for wait in (future.result, future.exception):
            with pytest.raises(TypeError, match="timeout: give seconds"):
                wait(timeout="x")
        assert str(await face.error(future)).startswith("task ")
        with pytest.raises(ValueError, match=f"future: its task is of scheduler {s.handle}"):
            await other.retry(future)
        with pytest.raises(TypeError, match="task: give sql"):
            await s.retry(future, 5)
        again = await s.retry(future, "select 1")  # text, as submit takes it
        assert (await face.result(again)).rows_affected == 1


def test_a_scheduler_that_is_not_open_says_so() -> None:
    s = Scheduler(NOWHERE)
    assert repr(s) == "<Scheduler (not open), 0/0 done, 0.0 s>"
    assert repr(lock("a", shared("b"), client=NOWHERE)) == "lock('a', 'b')"
    for use in (lambda: s.submit("select 1"), lambda: s.map("select 1", []), s.synchronize):
        with pytest.raises(RallypointError, match="use it in a `with` block"):
            use()


async def _awaited(call: Any) -> None:
    await call


@pytest.mark.parametrize("make", [Scheduler, AsyncScheduler])
def test_an_option_of_a_task_is_sent_to_the_task(make: Any) -> None:
    s = make(NOWHERE)
    with pytest.raises(TypeError, match=r"write submit\(sql\('…', target='x'\)\)"):
        s.submit("select 1", target="x")
    with pytest.raises(TypeError, match=r"write submit\(sql\('…', 5, 'a'\)\)"):
        s.submit("select $1, $2", 5, "a")
    with pytest.raises(TypeError, match=r"trget: submit has no such argument; did you mean target"):
        s.submit("select 1", trget="x")
    with pytest.raises(TypeError, match=r"write map\(sql\('…', timeout=5\)\)"):
        called = s.map("select $1", [1], timeout=5)
        asyncio.run(_awaited(called))


def test_items_of_a_map_are_checked(rallypoint: Any) -> None:
    with Scheduler(rallypoint) as s:
        with pytest.raises(TypeError, match=r"params of item 1: \$1: a value of type obj"):
            s.map("select $1", [1, object()])
        with pytest.raises(TypeError, match="task: give sql"):
            s.submit(None)
        with pytest.raises(TypeError, match="order: give a whole number"), s.order("1"):
            pass
        with pytest.raises(TypeError, match="settings: name at least one"):
            s.update()


def test_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_account(monkeypatch)
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


def _without_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("USER", "LOGNAME"):
        monkeypatch.delenv(variable, raising=False)


def test_a_caller_without_a_name_has_that_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    def sent(**given: str) -> Any:
        return dict(Client(NOWHERE, **given)._connection.metadata()).get("rallypoint-caller")

    _without_account(monkeypatch)
    assert sent() is None
    for user, logname, expected in [("", "anna", "anna"), ("bob", "anna", "bob"), ("ä", "", None)]:
        monkeypatch.setenv("USER", user)
        monkeypatch.setenv("LOGNAME", logname)
        assert sent() == expected
        assert sent(caller="stock") == "stock"


def test_what_is_left_out_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_account(monkeypatch)
    monkeypatch.setenv("RALLYPOINT_SERVER", "127.0.0.1:7,127.0.0.1:8")
    monkeypatch.setenv("RALLYPOINT_AUTH_TOKEN", "secret")
    monkeypatch.setenv("RALLYPOINT_NAMESPACE", "etl")
    client = Client()
    assert client.server == "127.0.0.1:7,127.0.0.1:8"
    expected = (("rallypoint-namespace", "etl"), ("authorization", "Bearer secret"))
    assert client._connection.metadata() == expected


def test_a_variable_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALLYPOINT_SERVER", "53999")
    with pytest.raises(ValueError, match="^RALLYPOINT_SERVER: '53999' is a port, and no address"):
        Client()
    Client(NOWHERE)
