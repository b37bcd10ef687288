"""Values of Python in the text form that Postgres reads, as parameters of SQL."""

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf import struct_pb2

from rallypoint.v1 import task_pb2

if TYPE_CHECKING:
    import decimal
    import uuid
else:

    class _Late:
        """A module that is imported when its contents are needed, as type hints are resolved."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> object:
            import importlib

            return getattr(importlib.import_module(self._name), name)

    decimal, uuid = _Late("decimal"), _Late("uuid")

#: What a parameter may be. Postgres infers the type that the statement needs.
Param: TypeAlias = (
    "str | bool | int | float | decimal.Decimal | bytes | bytearray | memoryview "
    "| datetime.date | datetime.time | datetime.timedelta | uuid.UUID "
    "| Sequence[Param] | Mapping[str, object] | None"
)

_MAX_PARAMS = 32_767


def values(params: Sequence[Param], name: str) -> list[task_pb2.SqlValue]:
    """The values of $1, $2, … Raises TypeError or ValueError with their place."""
    if len(params) > _MAX_PARAMS:
        raise ValueError(f"{name}: {len(params)} values; a statement has {_MAX_PARAMS} at most")
    return [_value(param, name, place) for place, param in enumerate(params, 1)]


def _value(param: Param, name: str, place: int) -> task_pb2.SqlValue:
    if param is None:
        return task_pb2.SqlValue(null=struct_pb2.NULL_VALUE)
    try:
        text = as_text(param)
    except TypeError as error:
        raise TypeError(f"{name}: ${place}: {error}") from None
    if "\0" in text:
        raise ValueError(f"{name}: ${place} holds a NUL character, which Postgres cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: ${place} is no text: {error.reason}") from None
    return task_pb2.SqlValue(text=text)


def as_text(param: Param) -> str:
    """One value but None."""
    if isinstance(param, str):
        return str.__str__(param)  # of an enumeration the value
    if isinstance(param, bool):
        return "true" if param else "false"
    if isinstance(param, (int, float)):
        # Of an enumeration the number.
        return format(param, "d") if isinstance(param, int) else float.__repr__(param)
    if isinstance(param, (bytes, bytearray, memoryview)):
        return f"\\x{bytes(param).hex()}"
    if isinstance(param, (datetime.date, datetime.time)):
        return param.isoformat()
    if isinstance(param, datetime.timedelta):
        return f"{param.days} days {param.seconds} seconds {param.microseconds} microseconds"
    if isinstance(param, Mapping):
        import json

        return json.dumps(param)
    if isinstance(param, (list, tuple)):
        return "{" + ",".join(_element(value) for value in param) + "}"
    # Imported here, as json is: most programs do without, and start sooner.
    import decimal
    import uuid

    if isinstance(param, (uuid.UUID, decimal.Decimal)):
        return str(param)
    kind = type(param).__name__
    raise TypeError(f"a value of type {kind} cannot be sent as one of SQL; pass str(value)")


def _element(value: Param) -> str:
    if value is None:
        return "NULL"
    text = as_text(value)
    if isinstance(value, (list, tuple)):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
