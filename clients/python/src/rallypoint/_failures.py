"""The failures of tasks that nobody has asked for."""

from collections.abc import Sequence

from rallypoint._future import TaskFuture
from rallypoint.errors import RallypointError


class TasksFailed(RallypointError):
    """Tasks failed, and nobody has asked their futures about it."""

    def __init__(self, failures: Sequence[TaskFuture], count: int) -> None:
        super().__init__(failures, count)
        #: The first of them, a hundred at most.
        self.failures = tuple(failures)
        #: How many there are.
        self.count = count

    def __str__(self) -> str:
        errors = [future.exception() for future in self.failures[:3]]
        more = [f"… and {self.count - len(errors)} more"] if self.count > len(errors) else []
        what = "1 task failed" if self.count == 1 else f"{self.count} tasks failed"
        return "\n".join([what, *(f"{error}" for error in errors), *more])
