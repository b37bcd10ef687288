"""Gives the tasks of an outbox table to Rallypoint, each of them once, whatever dies.

The id of a row is the request id of the call, so that a call which is repeated has its effect once.
Any number of relays may run. psycopg (version 3) finds the database by PGHOST and so on.
"""

import datetime
import json
import os
import sys
import time
import urllib.error
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
    """The call may be repeated, and has to be: it may have had its effect."""


def call(method: str, request: dict[str, Any]) -> dict[str, Any]:
    """One call of the service, in JSON."""
    headers = {"content-type": "application/json"}
    if token := os.environ.get("RALLYPOINT_AUTH_TOKEN"):
        headers["authorization"] = f"Bearer {token}"
    url = f"{SERVER}/rallypoint.v1.SchedulerService/{method}"
    body = json.dumps(request).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, headers), timeout=30
        ) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        with error:
            status = json.loads(error.read() or b"{}")
        if error.code in (429, 500, 503, 504):
            raise Unavailable(status.get("message")) from None
        reasons = [detail["reason"] for detail in status.get("details", []) if "reason" in detail]
        raise Refused(
            reasons[0] if reasons else str(error.code), status.get("message", "")
        ) from None
    except OSError as error:
        raise Unavailable(str(error)) from None


def relay(connection: Connection) -> int:
    """Gives some tasks to the service; how many. Raises Unavailable: once more, later."""
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
    for row in sorted(rows, key=lambda row: (row["created_at"], row["id"])):
        since = datetime.timedelta(seconds=time.monotonic() - read_at)
        offer(connection, row, row["age"] + since)
    return len(rows)


def offer(connection: Connection, row: DictRow, age: datetime.timedelta) -> None:
    """Submits the task of a row, unless it is there, and forgets the row."""
    try:
        if age < KNOWN_FOR or not is_there(row):
            submit(row)
    except Refused as refused:
        if refused.reason == "HANDLE_RELEASED" and not is_there(
            row
        ):  # the next round opens another
            retract(connection, row)
            return
        if refused.reason != "HANDLE_RELEASED":
            note(connection, row, str(refused))
            return
    forget(connection, row)


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
    connection.execute("update task_outbox set error = %s where id = %s", [error, row["id"]])


def main() -> None:
    """Relays for ever; with --once, what is there."""
    with psycopg.connect(autocommit=True, row_factory=dict_row) as connection:
        while True:
            try:
                count = relay(connection)
            except Unavailable as error:
                print(f"later: {error}", file=sys.stderr)
                count = 0
            if "--once" in sys.argv:
                print(f"{count} given to {SCHEDULER}")
                return
            if count == 0:
                time.sleep(1)


if __name__ == "__main__":
    main()
