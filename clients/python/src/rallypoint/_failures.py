"""The failures of tasks that nobody has asked for."""

from collections.abc import Sequence

from rallypoint._future import TaskFuture
from rallypoint.errors import RallypointError


class TasksFailed(RallypointError):
    """Tasks failed, or were cancelled, and nobody has asked their futures about it."""

    def __init__(self, failures: Sequence[TaskFuture], count: int, cancelled: int = 0) -> None:
        super().__init__(failures, count, cancelled)
        #: The first of them, a hundred at most.
        self.failures = tuple(failures)
        #: How many there are.
        self.count = count
        #: How many of these were cancelled, such as those that a halt blocked.
        self.cancelled = cancelled

    def __str__(self) -> str:
        errors = [future.exception() for future in self.failures[:3]]
        more = [f"… and {self.count - len(errors)} more"] if self.count > len(errors) else []
        return "\n".join([self._counts(), *(f"{error}" for error in errors), *more])

    def _counts(self) -> str:
        failed, cancelled = self.count - self.cancelled, self.cancelled
        were = "was cancelled" if cancelled == 1 else "were cancelled"
        if not failed:
            return f"{_tasks(cancelled)} {were}"
        return f"{_tasks(failed)} failed" + (f", {cancelled} {were}" if cancelled else "")


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
