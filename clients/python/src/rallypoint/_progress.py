"""How far the tasks of a scheduler are: as text, and in a notebook as a bar."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TextIO

_BAR_WIDTH = 30


class Progress(NamedTuple):
    """Tasks so far. `str` shows it in a line, a notebook as a bar."""

    submitted: int
    #: Ended, however.
    done: int
    #: Of those, the ones that failed, timed out or were lost, and those that were cancelled.
    failed: int
    cancelled: int
    #: Since the first was submitted.
    seconds: float

    @property
    def share(self) -> float:
        """Of those submitted, how many have ended: 0 to 1."""
        return self.done / self.submitted if self.submitted else 0.0

    @property
    def rate(self) -> float:
        """Tasks that ended per second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        parts = [f"{self.done}/{self.submitted} done"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.cancelled} cancelled"] if self.cancelled else []
        parts += [f"{_rate(self.rate)}/s"] if self.done else []
        parts += [f"{self.seconds:.1f} s"]
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        color = "#b3261e" if self.failed else "#2e7d32"
        return (
            '<div style="max-width:40em;font-family:monospace">'
            '<div style="background:#8884;border-radius:3px">'
            f'<div style="width:{self.share * 100:.1f}%;background:{color};height:8px;'
            'border-radius:3px"></div></div>'
            f"{self}</div>"
        )

    def line(self) -> str:
        """With a bar of letters, for a terminal."""
        filled = int(self.share * _BAR_WIDTH)
        return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {self}"


def _rate(rate: float) -> str:
    """In four digits, and whole from 1000 on, its thousands set apart."""
    return f"{rate:,.0f}".replace(",", " ") if rate >= 1000 else f"{rate:.4g}"


class Display:
    """Shows progress again and again, until the block is left.

    On a terminal it is one line, in a notebook a bar; elsewhere only the last state is written.
    """

    def __init__(
        self, progress: Callable[[], Progress], interval: float, file: TextIO | None
    ) -> None:
        self._progress, self._interval = progress, interval
        self._file = sys.stderr if file is None else file
        self._left = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown: Any = None

    def __enter__(self) -> Display:
        self._shown = _notebook_display(self._progress()) if self._file is sys.stderr else None
        if self._shown is not None or self._file.isatty():
            self._thread = threading.Thread(
                target=self._repeat, name="rallypoint-progress", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        if self._thread is not None:
            self._thread.join()
        self._show("\n")

    def _repeat(self) -> None:
        while not self._left.wait(self._interval):
            self._show("")

    def _show(self, end: str) -> None:
        progress = self._progress()
        if self._shown is not None:
            self._shown.update(progress)
        elif self._thread is not None:
            self._file.write(f"\r\x1b[K{progress.line()}{end}")
            self._file.flush()
        else:
            self._file.write(f"{progress}\n")


def _notebook_display(progress: Progress) -> Any:
    """What can be shown anew in a notebook; None: this is none."""
    if "IPython" not in sys.modules:
        return None
    try:
        from IPython import get_ipython
        from IPython.display import display

        shell = get_ipython()
        if shell is None or not hasattr(shell, "kernel"):
            return None
        return display(progress, display_id=True)
    except Exception:  # no notebook after all: a line does
        return None
