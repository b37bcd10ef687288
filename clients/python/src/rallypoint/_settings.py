"""The settings of a scheduler, as its caller writes them."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from rallypoint import _checks, _times
from rallypoint._tasks import Options, check_labels, choice, options_message
from rallypoint._times import Seconds
from rallypoint.errors import RallypointError
from rallypoint.v1 import scheduler_pb2

OnFailure: TypeAlias = Literal["continue", "halt", "cancel_rest"]
LateOrder: TypeAlias = Literal["reject", "join"]
ReleaseMode: TypeAlias = Literal["finish", "cancel"]
SessionReset: TypeAlias = Literal["task", "scheduler"]


class Settings(TypedDict, total=False):
    """Settings of a scheduler. What is left out has the default of the service."""

    #: Most tasks running at a time, at least 1.
    max_parallelism: int
    #: Weight among the schedulers of the namespace: 0.01 to 1000, default 1.
    weight: float
    #: What a failure does to later orders: nothing ("continue", the default), it blocks them, or
    #: it cancels their tasks.
    on_failure: OnFailure
    #: A task below the current order is refused (the default), or joins it.
    late_order: LateOrder
    #: For tasks that have none of their own.
    default_options: Options
    #: Seconds without a call, after which it is released as `on_abandon` says. Default 24 h.
    idle_timeout: Seconds
    on_abandon: ReleaseMode
    labels: Mapping[str, str]
    #: Free text.
    display_name: str
    #: "scheduler": sessions are not cleaned between tasks of this scheduler.
    session_reset: SessionReset


def settings_message(settings: Settings) -> scheduler_pb2.SchedulerSettings:
    """As they are sent. Raises TypeError or ValueError with the name of the argument."""
    known = Settings.__optional_keys__
    if strange := sorted(set(settings) - known):
        raise TypeError(f"{strange[0]}: no such setting; {_checks.meant(strange[0], known)}")
    message = scheduler_pb2.SchedulerSettings()
    if (title := settings.get("display_name")) is not None:
        message.display_name = _checks.text(title, "display_name")
    if (limit := settings.get("max_parallelism")) is not None:
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"max_parallelism: give a whole number, not {limit!r}")
        if limit < 1:
            raise ValueError(f"max_parallelism: at least 1, not {limit!r}; to start none, pause()")
        message.max_parallelism = limit
    if (weight := settings.get("weight")) is not None:
        message.weight = _checks.number(weight, "weight", 0.01, 1000)
    if (word := settings.get("on_failure")) is not None:
        message.on_failure = choice(scheduler_pb2.OnFailure, "ON_FAILURE", word, "on_failure")
    if (late := settings.get("late_order")) is not None:
        message.late_order = choice(scheduler_pb2.LateOrder, "LATE_ORDER", late, "late_order")
    if (mode := settings.get("on_abandon")) is not None:
        message.on_abandon = choice(scheduler_pb2.ReleaseMode, "RELEASE_MODE", mode, "on_abandon")
    if (reset := settings.get("session_reset")) is not None:
        resets = scheduler_pb2.SessionReset
        message.session_reset = choice(resets, "SESSION_RESET", reset, "session_reset")
    if (defaults := settings.get("default_options")) is not None:
        _checks.mapping(defaults, "default_options")
        if (options := options_message(defaults)) is not None:
            message.default_options.CopyFrom(options)
    if (idle := settings.get("idle_timeout")) is not None:
        message.idle_timeout.CopyFrom(_times.duration(idle, "idle_timeout"))
    message.labels.update(check_labels(settings.get("labels")))
    return message


def check_in_force(settings: Settings, found: scheduler_pb2.Scheduler) -> None:
    """Raises RallypointError when a scheduler that was open has others than those given."""
    given = settings_message(settings)
    # As the service keeps them.
    given.default_options.resources.sort(key=lambda use: use.name)
    wanted, present = [], []
    for name, value in settings.items():
        if value is not None and getattr(given, name) != getattr(found.settings, name):
            wanted.append(f"{name}={value!r}")
            present.append(f"{name}={_shown(found.settings, name)}")
    if wanted:
        change = ", ".join(wanted)
        raise RallypointError(
            f"scheduler {found.name} is open with {', '.join(present)}, not with {change}\n"
            f"  Give what it has, leave these out and call update({change}), or use another name."
        )


def _shown(settings: scheduler_pb2.SchedulerSettings, name: str) -> str:
    """A setting in force, as a caller writes it; of `default_options` what the service has."""
    field = settings.DESCRIPTOR.fields_by_name[name]
    value: Any = getattr(settings, name)
    if field.has_presence and not settings.HasField(name):  # type: ignore[arg-type]
        value = None
    elif name == "default_options":
        return f"{{{' '.join(str(value).split())}}}"
    elif name == "idle_timeout":
        value = value.ToTimedelta().total_seconds()
    elif name == "labels":
        value = dict(value)
    elif field.enum_type is not None and value in (words := field.enum_type.values_by_number):
        value = words[value].name.removeprefix(words[0].name.removesuffix("UNSPECIFIED")).lower()
    return repr(value)
