"""Gives the tasks of an outbox table to Rallypoint, each of them once, whatever dies.

The id of a row is the request id of the call, so that a call which is repeated has its effect once.
Any number of relays may run. psycopg (version 3) finds the database by PGHOST and so on.
The service is found by the variables of the command line: RALLYPOINT_SERVER (one address),
RALLYPOINT_TLS_CA, RALLYPOINT_TLS_CERT, RALLYPOINT_TLS_KEY, RALLYPOINT_AUTH_TOKEN_FILE,
RALLYPOINT_AUTH_TOKEN and RALLYPOINT_NAMESPACE.
"""

import argparse
import datetime
import functools
import http.client
import json
import os
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
SCHEDULER = "outbox"
# The service knows a request id for 15 minutes. From this age on the task itself is looked for.
KNOWN_FOR = datetime.timedelta(minutes=10)

Connection = psycopg.Connection[DictRow]


class Refused(Exception):
    """The service will not take this call, however often it is repeated."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class Unavailable(Exception):
    """The task is not at fault. Repeat the call: it may have had its effect."""


def setting(name: str) -> str | None:
    """A variable of the command line."""
    return os.environ.get(f"RALLYPOINT_{name}") or None


def who_calls() -> dict[str, str]:
    """Headers with token and namespace. The file is read each time, as the token may be renewed."""
    headers = {}
    token = setting("AUTH_TOKEN")
    if file := setting("AUTH_TOKEN_FILE"):
        with open(file) as lines:
            token = lines.readline().strip()
    if token:
        server = urllib.parse.urlsplit(SERVER)
        if server.scheme != "https" and server.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise Unavailable(f"{SERVER}: the token would go out in plain text; use https://")
        headers["authorization"] = f"Bearer {token}"
    if namespace := setting("NAMESPACE"):
        headers["rallypoint-namespace"] = namespace
    return headers


@functools.cache
def tls() -> ssl.SSLContext:
    """Whom to trust at https:// addresses, and the certificate to present there."""
    context = ssl.create_default_context(cafile=setting("TLS_CA"))
    if certificate := setting("TLS_CERT"):
        context.load_cert_chain(certificate, setting("TLS_KEY"))
    return context


def call(method: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call of the service, in JSON."""
    url = f"{SERVER}/rallypoint.v1.SchedulerService/{method}"
    body = json.dumps(request).encode()
    try:
        headers = {"content-type": "application/json"} | who_calls()
        sent = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(sent, timeout=30, context=tls()) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode(errors="replace")
        status: dict[str, Any] = json.loads(text) if text.startswith("{") else {"message": text}
        reasons = [detail["reason"] for detail in status.get("details", []) if "reason" in detail]
        reason = reasons[0] if reasons else str(error.code)
        message = status.get("message", "")
        # The caller may not call (401, 403), it calls too often, or the service has a fault.
        if error.code in (401, 403, 429) or error.code >= 500:
            raise Unavailable(f"{reason}: {message}") from None
        raise Refused(reason, message) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{SERVER}: {error}") from None


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


def main() -> int:
    """Relays for ever; with --once, what is there. The exit code."""
    parser = argparse.ArgumentParser(description="Gives the tasks of an outbox to Rallypoint.")
    parser.add_argument("--once", action="store_true", help="end when the table has been read")
    once: bool = parser.parse_args().once
    total = 0
    with psycopg.connect(autocommit=True, row_factory=dict_row) as connection:
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
                return 0
            if found == 0:
                time.sleep(1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except psycopg.OperationalError as error:
        sys.exit(f"the database: {error}")
