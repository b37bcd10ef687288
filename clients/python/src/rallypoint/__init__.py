"""The Python client of Rallypoint, which coordinates parallel work on Postgres.

>>> from rallypoint import Scheduler, sql
>>> with Scheduler("http://127.0.0.1:50051") as s:
...     with s.order(100):
...         s.map("insert into t values ($1)", range(10))
...     with s.order(200):
...         s.submit(sql("analyze t"))

README.md shows the rest. The messages in `rallypoint.v1` are generated from the proto files, whose
comments are the reference of the API.
"""

from typing import TYPE_CHECKING, Any

from rallypoint._client import AsyncClient, Client
from rallypoint._faces import AsyncScheduler, Scheduler
from rallypoint._failures import TasksFailed
from rallypoint._future import TaskFuture
from rallypoint._progress import Progress
from rallypoint._result import Result
from rallypoint._servers import Tls
from rallypoint._settings import Settings
from rallypoint._tasks import Options, Retry, Task, Use, exclusive, noop, shared, sql
from rallypoint._version import __version__
from rallypoint.errors import (
    CallError,
    HoldLost,
    LockTimeout,
    RallypointError,
    RunLost,
    SchedulerHalted,
    TaskCancelled,
    TaskError,
    TaskExhausted,
    TaskFailed,
    TaskTimedOut,
)

if TYPE_CHECKING:
    from rallypoint._locks import Hold, lock, try_acquire
    from rallypoint._runs import ClaimedRun, claim_run

__all__ = [
    "AsyncClient",
    "AsyncScheduler",
    "CallError",
    "ClaimedRun",
    "Client",
    "Hold",
    "HoldLost",
    "LockTimeout",
    "Options",
    "Progress",
    "RallypointError",
    "Result",
    "Retry",
    "RunLost",
    "Scheduler",
    "SchedulerHalted",
    "Settings",
    "Task",
    "TaskCancelled",
    "TaskError",
    "TaskExhausted",
    "TaskFailed",
    "TaskFuture",
    "TaskTimedOut",
    "TasksFailed",
    "Tls",
    "Use",
    "__version__",
    "claim_run",
    "exclusive",
    "lock",
    "noop",
    "shared",
    "sql",
    "try_acquire",
]

# Tracebacks name the exceptions as programs import them.
for _public in [*globals().values()]:
    if isinstance(_public, type) and issubclass(_public, RallypointError):
        _public.__module__ = __name__


if not TYPE_CHECKING:  # which would take any name for one of these

    def __getattr__(name: str) -> Any:
        """Imports what few programs use when it is used, so that the others start sooner."""
        if name in ("Hold", "lock", "try_acquire"):
            from rallypoint import _locks

            return getattr(_locks, name)
        if name in ("ClaimedRun", "claim_run"):
            from rallypoint import _runs

            return getattr(_runs, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
