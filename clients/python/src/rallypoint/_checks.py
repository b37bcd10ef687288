"""Arguments of a wrong name or type, found where they are given. Each error names the argument."""

import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Any


def meant(wrong: str, known: Iterable[str]) -> str:
    """Which of the names that are known was probably meant by another one, else all of them."""
    # Imported here: most programs do without, and start sooner.
    import difflib

    names = sorted(known)
    if alike := difflib.get_close_matches(wrong, names, n=1):
        return f"did you mean {alike[0]}?"
    return f"there are {', '.join(names)}"


def text(value: object, name: str) -> str:
    """Raises TypeError, as all here do."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: give a str, not {value!r}")
    return value


def flag(value: object, name: str) -> bool:
    """True or False, and nothing that only counts as one: "no" would count as True."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: give True or False, not {value!r}")
    return value


def whole(value: object, name: str, least: int, most: int) -> int:
    """A whole number of a range. Raises ValueError when it is outside."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: give a whole number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name}: {least} to {most}, not {value}")
    return value


def number(value: object, name: str, least: float, most: float) -> float:
    """A number of a range. Raises ValueError when it is outside."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: give a number, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{name}: {least:g} to {most:g}, not {value!r}")
    return float(value)


def patience(value: object, name: str) -> float | None:
    """For how many seconds to wait; None: for any time. What is below 0 counts as 0."""
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise TypeError(f"{name}: give seconds as a number, a timedelta, or None, not {value!r}")
    return float(value)


def items(values: Any, name: str, what: str) -> Iterable[Any]:
    """Something to iterate over. A single string is not taken for a list of its characters."""
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{name}: give a list of {what}, like [{values!r}]")
    if not isinstance(values, Iterable):
        raise TypeError(f"{name}: give a list of {what}, not {values!r}")
    return values


def texts(values: object, name: str, what: str) -> list[str]:
    """Several strings."""
    found = list(items(values, name, what))
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{name}: give a list of {what}, as str, not {value!r}")
    return found


def mapping(value: object, name: str) -> Mapping[Any, Any]:
    """Values by key."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: give a dict, not {value!r}")
    return value
