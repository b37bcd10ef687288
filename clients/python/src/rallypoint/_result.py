"""What a task that succeeded has to say."""

import datetime
from typing import Any

from rallypoint import _times
from rallypoint.v1 import task_pb2


class Result:
    """The result of a task."""

    __slots__ = ("_done", "_rows_json", "_truncated")

    def __init__(
        self, done: task_pb2.AsyncDone, rows_json: str | None = None, truncated: bool = False
    ) -> None:
        self._done = done
        # Of rows that were not in the event.
        self._rows_json, self._truncated = rows_json, truncated

    def __repr__(self) -> str:
        return f"Result(seq={self.seq}, rows_affected={self.rows_affected})"

    @property
    def seq(self) -> int:
        """The number of the task in its scheduler."""
        return self._done.seq

    @property
    def order(self) -> int | None:
        """The order it ran in."""
        return self._done.effective_order if self._done.HasField("effective_order") else None

    @property
    def rows_affected(self) -> int:
        """Rows that the last statement affected or returned."""
        return self._done.result.rows_affected

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The first rows, as JSON has them: as many as the option `rows` asked for.

        Numbers but `numeric`, booleans, JSON and null come as such, the rest as Postgres writes it.
        """
        import json

        text = self._done.result.rows_json if self._rows_json is None else self._rows_json
        rows: list[dict[str, Any]] = json.loads(text) if text else []
        return rows

    @property
    def truncated(self) -> bool:
        """The task returned more rows, or larger ones, than were kept."""
        return self._done.result.truncated or self._truncated

    @property
    def notices(self) -> list[str]:
        """What the last attempt said on its way: the last 8 KiB."""
        return notices_of(self._done)

    @property
    def attempt(self) -> int:
        """The number of the attempt that succeeded."""
        return self._done.attempt

    @property
    def started_at(self) -> datetime.datetime | None:
        """When that began, by the clock of the service."""
        return _times.moment_of_micros(self._done.started_us)

    @property
    def ended_at(self) -> datetime.datetime | None:
        """When it was done."""
        return _times.moment_of_micros(self._done.ended_us)

    @property
    def took(self) -> float:
        """Seconds from the start of the last attempt to its end."""
        return (self._done.ended_us - self._done.started_us) / 1_000_000

    @property
    def replica(self) -> str:
        """Where it ran."""
        return self._done.replica

    @property
    def backend_pid(self) -> int:
        """The process of Postgres that ran it; 0: none did."""
        return self._done.backend_pid


def notices_of(done: task_pb2.AsyncDone) -> list[str]:
    """The notices of a task, each of its lines. A line ends as in the log: with a newline alone."""
    lines = done.notices.split("\n")
    return lines if lines[-1] else lines[:-1]
