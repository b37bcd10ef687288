"""Every snippet of README.md, run as it stands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_rallypoint import RallypointServer
from rallypoint import _client as client_module

PACKAGE = Path(__file__).parent.parent
README = (PACKAGE / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PROGRAMS = [snippet for snippet in SNIPPETS if "def test_" not in snippet]
TESTS = [snippet for snippet in SNIPPETS if "def test_" in snippet]
(JOBS,) = re.findall(r"^```toml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
BEFORE, AFTER = README.split("## Clean up\n")
COMMANDS = re.findall(r"^rallypoint (jobs .*?)(?: +#.*)?$", BEFORE, re.MULTILINE)
CLEANING = re.findall(r"^rallypoint (.*)$", AFTER, re.MULTILINE)


@pytest.fixture
def prepared(
    rallypoint_server: RallypointServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server is there, and what the README does at the command line is done."""
    monkeypatch.setenv("RALLYPOINT_SERVER", rallypoint_server.url)
    monkeypatch.setattr(client_module, "_default", None)
    monkeypatch.chdir(tmp_path)
    Path("jobs.toml").write_text(JOBS)
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        rallypoint_server.run(*command.split())


def test_the_programs(
    prepared: None, rallypoint_server: RallypointServer, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    for snippet in PROGRAMS:
        exec(compile(snippet, "README.md", "exec"), {"__name__": "readme"})
        said.append(capsys.readouterr().out)
    everything = "".join(said)
    for expected in (
        "[{'sum': 30}]",
        "[{'n': 1}, {'n': 2}] truncated: True of 5",
        "22012 division by zero",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
        'column "nothing" does not exist',
        "closing the books of",
        "1000/1000 done",
    ):
        assert expected in everything
    assert len(PROGRAMS) == 9
    for command in CLEANING:
        rallypoint_server.run(*shlex.split(command))
    left = [rallypoint_server.run(noun, "list") for noun in ("jobs", "resource")]
    assert not re.search(r"\b(closing|orders|scanners)\b", "".join(left)), left


def test_the_tests(
    pytester: pytest.Pytester, rallypoint_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (snippet,) = TESTS
    pytester.makepyfile(snippet)
    monkeypatch.setenv("RALLYPOINT_BIN", rallypoint_program)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_the_types(tmp_path: Path) -> None:
    """Those of the package as it is installed."""
    for number, snippet in enumerate(SNIPPETS):
        (tmp_path / f"snippet{number}.py").write_text(snippet)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "."]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout


def test_commands_it_names_are_there() -> None:
    makefile = (PACKAGE.parent.parent / "Makefile").read_text()
    targets = re.findall(r"\bmake ([a-z-]+)", README)
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    links = re.findall(r"\]\(([^)#]+)", README)
    assert [link for link in links if not (PACKAGE / link).exists()] == []
