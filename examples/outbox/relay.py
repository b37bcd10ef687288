"""Gives the tasks of an outbox table to Rallypoint, each of them once, whatever dies.

The id of a row is the request id of the call, so that a call which is repeated has its effect once.
Any number of relays may run. psycopg (version 3) finds the database by PGHOST and so on.
The service is found by the variables of the command line: RALLYPOINT_SERVER (an address, or those
of several replicas, separated by commas), RALLYPOINT_TLS_CA, RALLYPOINT_TLS_CERT,
RALLYPOINT_TLS_KEY, RALLYPOINT_AUTH_TOKEN_FILE, RALLYPOINT_AUTH_TOKEN and RALLYPOINT_NAMESPACE.
Exit codes: 0 all is given (--once), 1 it is not, or the database fails, 2 a variable cannot be
used, or the table is missing.
"""

import argparse
import datetime
import http.client
import json
import os
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

SERVER = os.environ.get("RALLYPOINT_SERVER", "http://127.0.0.1:50051")
ADDRESS = r"(https?)://(\[[\da-f:.]+\]|[^\s/:?#\[\]]+)(?::(\d{1,5}))?"
SCHEDULER = "outbox"
# The service knows a request id for 15 minutes. From this age on the task itself is looked for.
KNOWN_FOR = datetime.timedelta(minutes=10)
NO_ANSWER = "this is no answer of Rallypoint"

Connection = psycopg.Connection[DictRow]


class Refused(Exception):
    """The service will not take this call, however often it is repeated."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(said)
        self.reason = reason


class Unavailable(Exception):
    """The task is not at fault. Repeat the call: it may have had its effect."""


class Unusable(Exception):
    """No call could succeed: a variable says what cannot be, or the table is missing."""


def setting(name: str) -> str | None:
    """A variable of the command line."""
    return os.environ.get(f"RALLYPOINT_{name}") or None


def addresses() -> list[str]:
    """Where replicas are. Any of them takes any call. Without a scheme it is http://."""
    named = [address.strip().rstrip("/") for address in SERVER.split(",") if address.strip()]
    return [address if "://" in address else f"http://{address}" for address in named]


def check_settings() -> None:
    """Raises Unusable when a variable says what no later call could use."""
    if not addresses():
        raise Unusable("RALLYPOINT_SERVER: it is empty")
    if "@" in SERVER:  # it is not repeated: there may be a password in it
        raise Unusable("RALLYPOINT_SERVER: an address has no user and no password")
    for address in addresses():
        check_address(address)
    for name in ("TLS_CA", "TLS_CERT", "TLS_KEY", "AUTH_TOKEN_FILE"):
        try:
            if file := setting(name):
                open(file, "rb").close()
        except OSError as error:
            raise Unusable(f"RALLYPOINT_{name}: {error}") from None
    if (setting("TLS_CERT") is None) != (setting("TLS_KEY") is None):
        raise Unusable("RALLYPOINT_TLS_CERT, RALLYPOINT_TLS_KEY: set both, or none of them")
    try:
        tls()
    except OSError as error:  # also what ssl says of files that are no PEM
        raise Unusable(f"RALLYPOINT_TLS_CA, _CERT or _KEY: {error}") from None
    try:
        who_calls()
    except Unavailable as error:
        raise Unusable(str(error)) from None


def check_address(address: str) -> None:
    """Raises Unusable when it is none of a server."""
    named = f"RALLYPOINT_SERVER: {address!r}"
    found = re.fullmatch(ADDRESS, address, re.IGNORECASE)
    if found and found[2].isdigit() and found[3] is None:
        meant = f"{found[1]}://127.0.0.1:{found[2]}"
        raise Unusable(f"{named} is a port without a host; write {meant}")
    if found is None or found[2].isdigit() or not 0 < int(found[3] or 1) < 65_536:
        raise Unusable(f"{named} is no address like http://HOST:PORT")
    if found[3] is None and found[1].lower() == "http":
        raise Unusable(f"{named} has no port; the usual one is 50051")


def who_calls() -> dict[str, str]:
    """Headers with token and namespace. Raises Unavailable, which names the variable."""
    headers = {}
    if token := token_now():
        for address in addresses():
            server = urllib.parse.urlsplit(address)
            is_here = server.hostname in ("localhost", "127.0.0.1", "::1")
            if server.scheme != "https" and not is_here:
                what = "the token would go out in plain text; use https://"
                raise Unavailable(f"RALLYPOINT_SERVER: {address}: {what}")
        headers["authorization"] = f"Bearer {token}"
    if namespace := setting("NAMESPACE"):
        if not (namespace.isascii() and namespace.isprintable()):
            raise Unavailable(f"RALLYPOINT_NAMESPACE: {namespace!r} is not printable ASCII")
        headers["rallypoint-namespace"] = namespace
    return headers


def token_now() -> str | None:
    """The token to call with. The file is read each time, as the token may be renewed."""
    variable, token = "RALLYPOINT_AUTH_TOKEN", setting("AUTH_TOKEN")
    if file := setting("AUTH_TOKEN_FILE"):
        variable = "RALLYPOINT_AUTH_TOKEN_FILE"
        try:
            with open(file, encoding="ascii") as lines:
                token = lines.readline().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"{variable}: {file}: {error}") from None
    if token is not None and not (token and all("!" <= letter <= "~" for letter in token)):
        raise Unavailable(f"{variable}: a token is printable ASCII without spaces")
    return token


def tls() -> ssl.SSLContext:
    """Whom to trust at https:// addresses, and the certificate to present there.

    The files are read each time, as they may be renewed.
    """
    context = ssl.create_default_context(cafile=setting("TLS_CA"))
    if certificate := setting("TLS_CERT"):
        context.load_cert_chain(certificate, setting("TLS_KEY"))
    return context


def call(method: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call of the service, in JSON: of the first replica that can take it.

    Two may get the same call, which is harmless, as it has a request id or only reads.
    """
    away = []
    for address in addresses():
        try:
            return call_at(address, method, request)
        except Unavailable as error:
            away.append(str(error))
    raise Unavailable("; ".join(away))


def call_at(address: str, method: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call of a replica."""
    url = f"{address}/rallypoint.v1.SchedulerService/{method}"
    body = json.dumps(request).encode()
    headers = {"content-type": "application/json"} | who_calls()
    try:
        sent = urllib.request.Request(url, body, headers)
        context = tls() if address.lower().startswith("https:") else None
        with urllib.request.urlopen(sent, timeout=30, context=context) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        with error:
            raise refusal(address, error.code, error.read()) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{address}: {error}") from None
    except ValueError as error:  # no JSON
        raise Unavailable(f"{address}: {NO_ANSWER}: {error}") from None


def refusal(address: str, code: int, body: bytes) -> Refused | Unavailable:
    """What is not answered with 200."""
    try:
        status = json.loads(body)
        reason = next(detail["reason"] for detail in status["details"] if "reason" in detail)
        said = f"{reason}: {status['message']}"
    except (ValueError, LookupError, TypeError, StopIteration):
        # A proxy, or another program: only that the task is too large is a word about the task.
        if code == 413:
            return Refused("413", f"{address}: HTTP 413, the task is too large for it")
        return Unavailable(f"{address}: {NO_ANSWER}: HTTP {code}")
    # The caller may not call (401, 403), it calls too often, or the service has a fault.
    if code in (401, 403, 429) or code >= 500:
        return Unavailable(said)
    return Refused(reason, said)


def relay(connection: Connection) -> tuple[int, int]:
    """Offers some rows to the service: how many, and how many of them it has now.

    Raises Unavailable: once more, later.
    """
    settings = {"display_name": "tasks of the outbox", "idle_timeout": "31536000s"}
    opened = call(
        "GetScheduler",
        {"name": SCHEDULER, "reuse": True, "settings": settings, "request_id": str(uuid.uuid4())},
    )
    rows = connection.execute(
        """
        update task_outbox
        set handle = coalesce(handle, %s), offered_at = coalesce(offered_at, clock_timestamp())
        where id in (
            select id from task_outbox where error is null order by created_at, id limit 100
        )
        returning *, clock_timestamp() - offered_at as age
        """,
        [opened["scheduler"]["handle"]],
    ).fetchall()
    read_at = time.monotonic()
    # From here on the row says to which scheduler the task may have been submitted.
    given = 0
    for row in sorted(rows, key=lambda row: (row["created_at"], row["id"])):
        since = datetime.timedelta(seconds=time.monotonic() - read_at)
        given += offer(connection, row, row["age"] + since)
    return len(rows), given


def offer(connection: Connection, row: DictRow, age: datetime.timedelta) -> bool:
    """Submits the task of a row, unless it is there, and forgets the row. Whether it is there."""
    try:
        if age < KNOWN_FOR or not is_there(row):
            submit(row)
    except Refused as refused:
        if refused.reason != "HANDLE_RELEASED":
            note(connection, row, str(refused))
            return False
        if not is_there(row):  # the next round opens another scheduler
            retract(connection, row)
            return False
    forget(connection, row)
    return True


def submit(row: DictRow) -> None:
    """Repeated with the same id, it submits the task once."""
    task = {
        "sql": {"statement": row["statement"], "params": [value(text) for text in row["params"]]},
        "options": {"labels": {"outbox": str(row["id"])}},
    }
    call("ExecAsync", {"handle": row["handle"], "request_id": str(row["id"]), "tasks": [task]})


def value(text: str | None) -> dict[str, Any]:
    """A parameter, as the service has it."""
    return {"null": None} if text is None else {"text": text}


def is_there(row: DictRow) -> bool:
    """Whether the task was submitted. Its label says from which row it is."""
    request = {"handle": row["handle"], "filter": {"labels": {"outbox": str(row["id"])}}}
    found = call("ListTasks", request)
    while not found["tasks"] and found.get("next_page_token"):
        found = call("ListTasks", request | {"page_token": found["next_page_token"]})
    return bool(found["tasks"])


def forget(connection: Connection, row: DictRow) -> None:
    """The service has the task: the log says what becomes of it."""
    connection.execute("delete from task_outbox where id = %s", [row["id"]])


def retract(connection: Connection, row: DictRow) -> None:
    """It was never submitted to this scheduler, which takes no more."""
    connection.execute(
        "update task_outbox set handle = null, offered_at = null where id = %s", [row["id"]]
    )


def note(connection: Connection, row: DictRow, error: str) -> None:
    """Something is wrong with the task. It must not hold up those behind it."""
    print(f"refused: {row['id']}: {error}", file=sys.stderr)
    connection.execute("update task_outbox set error = %s where id = %s", [error, row["id"]])


def refused(connection: Connection) -> int:
    """How many rows wait for people: the service has refused them."""
    row = connection.execute("select count(*) from task_outbox where error is not null").fetchone()
    return 0 if row is None else int(row["count"])


def check_table(connection: Connection) -> None:
    """Raises Unusable when there is none, before a scheduler is opened for its tasks."""
    try:
        connection.execute("select from task_outbox limit 0")
    except psycopg.errors.UndefinedTable:
        database = connection.info.dbname
        what = "has no table task_outbox; `psql -f outbox.sql` makes it"
        raise Unusable(f"the database {database} {what}") from None


def run(connection: Connection, once: bool) -> int:
    """Relays for ever; with `once`, what is there. The exit code."""
    total = 0
    while True:
        try:
            found, given = relay(connection)
        except (Unavailable, Refused) as error:
            print(f"later: {error}", file=sys.stderr)
            if once:
                return 1
            found = given = 0
        total += given
        if once and found == 0:
            print(f"{total} given to {SCHEDULER}")
            if left := refused(connection):
                print(f"{left} refused: see `error` in task_outbox", file=sys.stderr)
                return 1
            return 0
        if found == 0:
            time.sleep(1)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="Gives the tasks of an outbox to Rallypoint.")
    parser.add_argument("--once", action="store_true", help="end when the table has been read")
    once: bool = parser.parse_args().once
    try:
        check_settings()
        with psycopg.connect(autocommit=True, row_factory=dict_row) as connection:
            check_table(connection)
            return run(connection, once)
    except Unusable as error:
        print(error, file=sys.stderr)
        return 2
    except psycopg.Error as error:
        print(f"the database: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # what is not marked as submitted is given again, by the same request id


if __name__ == "__main__":
    sys.exit(main())
