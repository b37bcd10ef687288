"""What is submitted: SQL or a no-op, and how it is run. Mistakes are found before anything is sent.

The comments in `proto/rallypoint/v1/task.proto` say more of each option.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from rallypoint import _checks, _times
from rallypoint._times import Seconds
from rallypoint._values import Param, values
from rallypoint.v1 import resource_pb2, task_pb2

if not TYPE_CHECKING:
    # `Param` is text, in which these stand: the type hints of this module are resolved with them.
    from rallypoint._values import decimal, uuid  # noqa: F401

MAX_BODY_BYTES = 1 << 20
MAX_ORDER = 9_007_199_254_740_991
_MAX_ROWS = 10_000
_MAX_ATTEMPTS = 1000
_RETRY_COUNTS = {"max_attempts": (1, _MAX_ATTEMPTS), "max_losses": (1, _MAX_ATTEMPTS)}
_RETRY_NUMBERS = {"backoff_multiplier": (1.0, 100.0), "jitter": (0.0, 1.0)}
MAX_PERMITS = 1_000_000

Delivery: TypeAlias = Literal["at_least_once", "at_most_once", "exactly_once"]
Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]


class Retry(NamedTuple):
    """When a failed attempt is followed by another one. What is None has the service's default."""

    #: Attempts that reported an error or timed out, in all. Default 1: no retry.
    max_attempts: int | None = None
    #: Attempts lost with their host or connection, or by a transient error. Default 3.
    max_losses: int | None = None
    #: Before the second attempt. Default 1 s.
    initial_backoff: Seconds | None = None
    #: From one delay to the next. Default 2.
    backoff_multiplier: float | None = None
    #: Longest delay. Default 5 min.
    max_backoff: Seconds | None = None
    #: Random share of the delays, 0 to 1. Default 0.2.
    jitter: float | None = None
    #: SQLSTATEs that are never retried.
    non_retryable: Sequence[str] = ()


class Use(NamedTuple):
    """A resource, and how it is used: see `exclusive` and `shared`."""

    name: str
    #: None: alone. Else so many permits, beside others.
    permits: int | None = None

    def message(self, argument: str) -> resource_pb2.ResourceUse:
        """As it is sent. Raises TypeError or ValueError."""
        if not isinstance(self.name, str):
            raise TypeError(
                f"{argument}: {self.name!r} is no name; resources are named by texts, and other "
                "arguments by their names, as wait=10 and permits=2"
            )
        if not 0 < len(self.name.encode()) <= 255:
            raise ValueError(f"{argument}: {self.name!r}: a resource has a name of 1 to 255 bytes")
        if self.permits is None:
            mode = resource_pb2.RESOURCE_MODE_EXCLUSIVE
            return resource_pb2.ResourceUse(name=self.name, mode=mode)
        what = f"{argument}: permits of {self.name!r}"
        permits = _checks.whole(self.permits, what, 1, MAX_PERMITS)
        mode = resource_pb2.RESOURCE_MODE_SHARED
        return resource_pb2.ResourceUse(name=self.name, mode=mode, permits=permits)


def exclusive(name: str) -> Use:
    """A resource for nobody else: as a writer, or the holder of a lock."""
    return Use(name)


def shared(name: str, permits: int = 1) -> Use:
    """Some permits of a resource: as a reader, or the user of a semaphore."""
    return Use(name, permits)


def uses(resources: Iterable[str | Use], argument: str) -> list[resource_pb2.ResourceUse]:
    """The uses of several resources, each named once. Raises TypeError or ValueError."""
    given = _checks.items(resources, argument, "resources")
    found = [use if isinstance(use, Use) else exclusive(use) for use in given]
    messages = [use.message(argument) for use in found]
    names = [use.name for use in found]
    if not 1 <= len(found) <= 16 or len(set(names)) < len(names):
        raise ValueError(f"{argument}: 1 to 16 resources, each once, not {names}")
    return messages


class Options(TypedDict, total=False):
    """How a task is run. What is left out has the default of the scheduler, or of the service."""

    #: Seconds that one attempt may take.
    timeout: Seconds
    #: Seconds from submission to outcome, waiting included.
    total_timeout: Seconds
    #: It does not start before: a datetime with a time zone.
    not_before: datetime.datetime
    #: How many more attempts follow one that failed.
    retries: int
    #: The same in detail, instead of `retries`.
    retry: Retry
    delivery: Delivery
    #: How many rows of the result to keep, up to 10 000; default 0.
    rows: int
    labels: Mapping[str, str]
    #: Transactions begin read-only.
    read_only: bool
    isolation: Isolation
    #: Names of schemas, without the quotes of SQL.
    search_path: Sequence[str]
    #: After so long Postgres ends a statement.
    statement_timeout: Seconds
    #: The role to set, one that the operator allows; "": none.
    role: str
    #: What an attempt holds while it runs: names, or `shared("name", permits)`.
    resources: Sequence[str | Use]


class TaskSpec(Options, total=False):
    """Options of a task, and what only a task has."""

    #: Where it runs; default: the target called `app`.
    target: str
    #: Its order; default: that of the `with s.order(…)` around it, or none.
    order: int | None


class Task:
    """What `sql` and `noop` make: something to submit, as often as you like."""

    __slots__ = ("_message", "order", "statement")

    def __init__(self, message: task_pb2.Task, statement: str | None, order: int | None) -> None:
        self._message = message
        #: The text; None: a no-op.
        self.statement = statement
        #: The order it has of its own.
        self.order = order

    def __repr__(self) -> str:
        shown = "noop()" if self.statement is None else f"sql({self.statement[:60]!r})"
        return shown if self.order is None else f"{shown} of order {self.order}"

    def message(self, order: int | None) -> task_pb2.Task:
        """As it is sent: in its own order, else in this one."""
        order = order if self.order is None else self.order
        if order is None:
            return self._message
        message = task_pb2.Task()
        message.CopyFrom(self._message)
        message.order = order
        return message

    def messages(self, items: Iterable[Any], order: int | None) -> Iterator[task_pb2.Task]:
        """One of each item: its parameters, or for a no-op its payload."""
        template = self.message(order)
        make = self._with_payload if self.statement is None else self._with_params
        given = _checks.items(items, "params", "items")
        return (make(template, item, place) for place, item in enumerate(given))

    @staticmethod
    def _with_params(template: task_pb2.Task, item: Any, place: int) -> task_pb2.Task:
        params = item if isinstance(item, (tuple, list)) else (item,)
        message = task_pb2.Task()
        message.CopyFrom(template)
        message.sql.params.extend(values(params, f"params of item {place}"))
        return message

    @staticmethod
    def _with_payload(template: task_pb2.Task, item: Any, place: int) -> task_pb2.Task:
        message = task_pb2.Task()
        message.CopyFrom(template)
        payload = item if isinstance(item, bytes) else str(item).encode()
        message.noop.payload = _payload(payload, f"payload of item {place}")
        return message


def sql(statement: str, *params: Param, **spec: Unpack[TaskSpec]) -> Task:
    """SQL to run, with values for $1, $2, …

    Without parameters the text may hold any number of statements; the result is that of the last.

    >>> sql("select pg_sleep($1)", 0.5, timeout=10, order=100)
    sql('select pg_sleep($1)') of order 100
    """
    _check_text(statement, "statement")
    target, order = spec.pop("target", ""), check_order(spec.pop("order", None))
    if not isinstance(target, str):
        raise TypeError(f"target: give the name of a target, not {target!r}")
    body = task_pb2.SqlTask(statement=statement, params=values(params, "params"), target=target)
    message = task_pb2.Task(sql=body, options=options_message(spec))
    return Task(message, statement, order)


def noop(payload: bytes = b"", **spec: Unpack[TaskSpec]) -> Task:
    """Nothing, which succeeds: for tests and measurements. The payload is stored in the log."""
    _payload(payload, "payload")
    order = check_order(spec.pop("order", None))
    options = options_message(spec)
    message = task_pb2.Task(noop=task_pb2.NoopTask(payload=payload), options=options)
    return Task(message, None, order)


def _payload(payload: bytes, name: str) -> bytes:
    if not isinstance(payload, bytes):
        raise TypeError(f"{name}: give bytes, not {payload!r}")
    if len(payload) > MAX_BODY_BYTES:
        raise ValueError(f"{name}: {len(payload)} bytes; 1 MiB at most")
    return payload


def as_task(task: Task | str, argument: str = "task") -> Task:
    """What was given to submit. Raises TypeError."""
    if isinstance(task, Task):
        return task
    if isinstance(task, str):
        return sql(task)
    raise TypeError(f"{argument}: give sql('…') or noop(), not {task!r}")


def refuse_options(call: str, options: Mapping[str, object], params: Sequence[object] = ()) -> None:
    """Says where arguments belong that `call` does not have. Raises TypeError."""
    if params:
        given = ", ".join(map(repr, params))
        order = f"; an order is order={given}" if [type(one) for one in params] == [int] else ""
        raise TypeError(f"parameters are given to the task; write {call}(sql('…', {given})){order}")
    known = TaskSpec.__optional_keys__
    for name, value in options.items():
        if name in known:
            task = f"sql('…', {name}={value!r})"
            raise TypeError(f"{name}: an option of the task; write {call}({task})")
        raise TypeError(f"{name}: {call} has no such argument; {_meant(name, known)}")


def check_order(order: int | None) -> int | None:
    """Raises TypeError or ValueError."""
    if order is None:
        return None
    if isinstance(order, bool) or not isinstance(order, int):
        raise TypeError(f"order: give a whole number, not {order!r}")
    if not 0 <= order <= MAX_ORDER:
        raise ValueError(f"order: {order} is not from 0 to {MAX_ORDER}")
    return order


def _check_text(statement: str, name: str) -> None:
    if not isinstance(statement, str):
        raise TypeError(f"{name}: give SQL as a str, not {statement!r}")
    if not statement.strip():
        raise ValueError(f"{name}: it is empty")
    if "\0" in statement:
        raise ValueError(f"{name}: it holds a NUL character, which Postgres cannot take")
    if len(statement.encode()) > MAX_BODY_BYTES:
        raise ValueError(f"{name}: it is longer than 1 MiB")


def options_message(options: Options) -> task_pb2.TaskOptions | None:
    """As they are sent; None: there are none. Raises TypeError or ValueError."""
    known = Options.__optional_keys__
    strange = sorted(set(options) - known)
    if strange:
        raise TypeError(f"{strange[0]}: no such option; {_meant(strange[0], known)}")
    if not options:
        return None
    message = task_pb2.TaskOptions()
    for name in ("timeout", "total_timeout"):
        if (value := options.get(name)) is not None:
            getattr(message, name).CopyFrom(_times.duration(value, name))  # type: ignore[arg-type]
    if (not_before := options.get("not_before")) is not None:
        message.not_before.CopyFrom(_times.timestamp(not_before, "not_before"))
    _retries(options, message)
    if (delivery := options.get("delivery")) is not None:
        message.delivery = choice(task_pb2.Delivery, "DELIVERY", delivery, "delivery")
    if (rows := options.get("rows")) is not None:
        message.result_rows = _checks.whole(rows, "rows: how many to keep", 0, _MAX_ROWS)
    message.labels.update(check_labels(options.get("labels")))
    _session(options, message)
    resources = options.get("resources")
    if resources is not None and resources != [] and resources != ():
        message.resources.extend(uses(resources, "resources"))
    return message


def _meant(strange: str, known: Iterable[str]) -> str:
    if strange in ("max_retries", "max_attempts", "attempts"):
        return "write retries=N: how many more attempts follow one that failed"
    return _checks.meant(strange, known)


def _session(options: Options, message: task_pb2.TaskOptions) -> None:
    session = task_pb2.SessionOptions()
    if (read_only := options.get("read_only")) is not None:
        session.read_only = _checks.flag(read_only, "read_only")
    if (isolation := options.get("isolation")) is not None:
        session.isolation = choice(task_pb2.Isolation, "ISOLATION", isolation, "isolation")
    if (path := options.get("search_path")) is not None:
        session.search_path.extend(_checks.texts(path, "search_path", "schemas"))
    if (limit := options.get("statement_timeout")) is not None:
        session.statement_timeout.CopyFrom(_times.duration(limit, "statement_timeout"))
    if (role := options.get("role")) is not None:
        session.role = _checks.text(role, "role")
    if session != task_pb2.SessionOptions() or role is not None:
        message.session.CopyFrom(session)


def _retries(options: Options, message: task_pb2.TaskOptions) -> None:
    retries, retry = options.get("retries"), options.get("retry")
    if retries is not None and retry is not None:
        raise ValueError("retries, retry: give one of them; Retry has max_attempts")
    if retries is not None:
        more = _checks.whole(retries, "retries: more attempts", 0, _MAX_ATTEMPTS - 1)
        message.retry.max_attempts = more + 1
    if retry is not None:
        message.retry.CopyFrom(_retry(retry))


def _retry(retry: Retry) -> task_pb2.RetryPolicy:
    if not isinstance(retry, Retry):
        raise TypeError(f"retry: give a Retry, or write retries=N, not {retry!r}")
    codes = _checks.texts(retry.non_retryable, "retry.non_retryable", "SQLSTATEs")
    message = task_pb2.RetryPolicy(non_retryable_codes=codes)
    for name, (least, most) in _RETRY_COUNTS.items():
        if (count := getattr(retry, name)) is not None:
            setattr(message, name, _checks.whole(count, f"retry.{name}", least, most))
    for name, (lowest, highest) in _RETRY_NUMBERS.items():
        if (value := getattr(retry, name)) is not None:
            setattr(message, name, _checks.number(value, f"retry.{name}", lowest, highest))
    if retry.initial_backoff is not None:
        delay = _times.duration(retry.initial_backoff, "retry.initial_backoff")
        message.initial_backoff.CopyFrom(delay)
    if retry.max_backoff is not None:
        message.max_backoff.CopyFrom(_times.duration(retry.max_backoff, "retry.max_backoff"))
    return message


def check_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Raises TypeError."""
    for key, value in _checks.mapping({} if labels is None else labels, "labels").items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"labels: keys and values are str, not {key!r}: {value!r}")
    return labels or {}


def choice(enum: Any, prefix: str, word: str, argument: str) -> Any:
    """The value of an enumeration of this name in small letters. Raises ValueError."""
    names = [name.removeprefix(f"{prefix}_").lower() for name in enum.keys()[1:]]
    if word not in names:
        raise ValueError(f"{argument}: {word!r} is none of {', '.join(names)}")
    return enum.Value(f"{prefix}_{word.upper()}")
