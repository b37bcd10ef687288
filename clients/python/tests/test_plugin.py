"""The plugin for pytest."""

import re
import time
from pathlib import Path

import pytest

TEST = """
from rallypoint import Client, Scheduler, sql

def test_one(rallypoint: Client) -> None:
    with Scheduler(rallypoint) as s:
        assert s.submit(sql("select 1", rows=1)).result(30).rows == [{"?column?": 1}]

def test_slots(rallypoint_server) -> None:
    assert " 3 " in rallypoint_server.run("status")
"""


def test_the_program_is_named_by_an_option(
    pytester: pytest.Pytester, rallypoint_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RALLYPOINT_BIN", raising=False)
    pytester.makeini("[pytest]\nrallypoint_serve =\n    --slots\n    3")
    pytester.makepyfile(TEST)
    ended = pytester.runpytest_subprocess(f"--rallypoint-bin={rallypoint_program}")
    ended.assert_outcomes(passed=2)


def test_without_a_program_it_says_what_to_do(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TEST)
    monkeypatch.setenv("RALLYPOINT_BIN", "/nowhere/rallypoint")
    ended = pytester.runpytest_subprocess()
    ended.assert_outcomes(errors=2)
    said = "/nowhere/rallypoint is no program: give --rallypoint-bin=FILE, or set RALLYPOINT_BIN"
    ended.stdout.fnmatch_lines([f"*{said}*"])


def test_a_server_that_does_not_start_shows_its_log(
    pytester: pytest.Pytester, rallypoint_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALLYPOINT_BIN", rallypoint_program)
    pytester.makeini("[pytest]\nrallypoint_serve = --no-such-option")
    pytester.makepyfile(TEST)
    ended = pytester.runpytest_subprocess()
    ended.assert_outcomes(errors=2)
    assert re.search(r"does not serve:\n.*unexpected argument", ended.stdout.str(), re.DOTALL)


def test_a_session_that_is_killed_leaves_no_server_behind(
    pytester: pytest.Pytester, rallypoint_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALLYPOINT_BIN", rallypoint_program)
    pytester.makepyfile("""
import os, signal
from pathlib import Path

def test_killed(rallypoint_server) -> None:
    Path("folder").write_text(str(rallypoint_server.folder))
    os.kill(os.getpid(), signal.SIGKILL)
""")
    pytester.runpytest_subprocess()
    folder = Path((pytester.path / "folder").read_text())
    end = time.monotonic() + 30
    while folder.exists():
        assert time.monotonic() < end, f"{folder} is left"
        time.sleep(0.05)


def test_tests_without_it_do_not_import_the_client(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\ndef test_lean(): assert not {'grpc', 'rallypoint'} & set(sys.modules)"
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
