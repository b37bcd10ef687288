"""Progress: as text, on a terminal, in a notebook."""

import io
import sys
import types
from typing import Any

import pytest

from rallypoint import Client, Progress, Scheduler, noop


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_and_a_bar() -> None:
    progress = Progress(submitted=100, done=40, failed=2, cancelled=1, seconds=4.0)
    assert str(progress) == "40/100 done, 2 failed, 1 cancelled, 10/s, 4.0 s"
    fast = Progress(submitted=1000, done=1000, failed=0, cancelled=0, seconds=1 / 106)
    assert str(fast) == "1000/1000 done, 106 000/s, 0.0 s"
    assert str(fast._replace(seconds=3.0)) == "1000/1000 done, 333.3/s, 3.0 s"
    assert progress.line().startswith("[############....")
    assert "width:40.0%" in progress._repr_html_()
    assert "40/100 done" in progress._repr_html_()
    empty = Progress(0, 0, 0, 0, 0.0)
    assert (empty.share, empty.rate, str(empty)) == (0.0, 0.0, "0/0 done, 0.0 s")


def test_on_a_terminal_it_is_one_line(rallypoint: Client) -> None:
    terminal, file = Terminal(), io.StringIO()
    with (
        Scheduler(rallypoint) as s,
        s.show_progress(interval=0.01, file=terminal),
        s.show_progress(file=file),
    ):
        s.map(noop(), range(10))
        s.submit("select pg_sleep(0.1)").result(30)
        s.synchronize()
    assert terminal.getvalue().count("\r") > 1
    assert terminal.getvalue().splitlines()[-1].endswith(" s")
    assert file.getvalue().startswith("11/11 done, ")
    assert file.getvalue().count("\n") == 1


def test_in_a_notebook_it_is_shown_anew(
    rallypoint: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []

    class Shown:
        def update(self, progress: Any) -> None:
            shown.append(progress)

    def display(progress: Any, display_id: bool) -> Shown:
        shown.append(progress)
        return Shown()

    # What a kernel has, of which the package uses these two.
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    with Scheduler(rallypoint) as s, s.show_progress(interval=0.01):
        s.submit("select pg_sleep(0.1)").result(30)
    assert (shown[0].done, shown[-1].done) == (0, 1)
    assert len(shown) > 2
