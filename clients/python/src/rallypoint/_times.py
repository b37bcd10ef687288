"""Lengths of time and points in time, as the service has them."""

import datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

#: Seconds, or a timedelta.
Seconds = float | datetime.timedelta

_UTC = datetime.UTC


def duration(value: Seconds, name: str) -> Duration:
    """Raises TypeError or ValueError with the name of the argument."""
    micros = round(seconds(value, name) * 1_000_000)
    return Duration(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def seconds(value: Seconds, name: str) -> float:
    """As a number. Raises TypeError or ValueError with the name of the argument."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: give seconds as a number, or a timedelta, not {value!r}")
    if not 0 <= value < 1e12:
        raise ValueError(f"{name}: {value!r} seconds is out of range")
    return float(value)


def timestamp(value: datetime.datetime, name: str) -> Timestamp:
    """Raises TypeError or ValueError with the name of the argument."""
    if not isinstance(value, datetime.datetime):
        raise TypeError(f"{name}: give a datetime with a time zone, not {value!r}")
    if value.tzinfo is None:
        raise ValueError(f"{name}: {value} has no time zone; say which: tzinfo=timezone.utc")
    result = Timestamp()
    result.FromDatetime(value.astimezone(_UTC).replace(tzinfo=None))
    return result


def moment(value: Timestamp) -> datetime.datetime:
    """In UTC."""
    return value.ToDatetime(tzinfo=_UTC)


def moment_of_micros(micros: int) -> datetime.datetime | None:
    """Microseconds since 1970, in UTC; None: unset."""
    if micros == 0:
        return None
    return datetime.datetime(1970, 1, 1, tzinfo=_UTC) + datetime.timedelta(microseconds=micros)
