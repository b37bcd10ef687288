"""The commands and programs of the pages of `docs/`, each page on a server of its own.

With PAGES_UPDATE=1 the pages are given what was printed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pages
import psycopg
import pytest

import pytest_rallypoint
from pytest_rallypoint import RallypointServer

TOP = Path(__file__).parents[3]
# Others have tests in tests/it, or nothing to run.
NAMES = (
    "concepts",
    "from-celery",
    "from-pg-cron-and-pgagent",
    "from-service-broker",
    "from-sql-server-agent",
    "getting-started",
    "operations",
    "outbox",
    "promises",
    "shapes",
)
# What changes the server of getting started, or has one of its own, is not walked.
WALKED = [name for name in NAMES if name not in ("getting-started", "operations", "promises")]
# Where a server of root keeps its private Postgres.
_DATA_DIR = "/var/lib/rallypoint/postgres"
GUARD = (TOP / "docs" / "guard.md").read_text()
_POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where Postgres, which does not run as root, may come, too."""
    made = Path(tempfile.mkdtemp(prefix="rallypoint-page-", dir=pytest_rallypoint._in_memory()))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_shows_is_what_is_printed(
    name: str, folder: Path, rallypoint_program: str
) -> None:
    file = TOP / "docs" / f"{name}.md"
    text = file.read_text()
    found = pages.steps(text)
    assert found
    _copy_example(name, folder)
    environment = _shell(folder, rallypoint_program)
    if any(step.command.startswith("rallypoint serve") for step in found):
        _run_with_own_server(found, folder, environment)
    else:
        server = RallypointServer(rallypoint_program, ["--replica-name", "a"])
        try:
            server.start()
            pages.run(found, folder, environment | _of(server))
        finally:
            server.remove()
    if os.environ.get("PAGES_UPDATE"):
        file.write_text(pages.updated(text, found))
    for step in found:
        assert step.fits(), f"{step.command}shows\n{step.shown}\nprints\n{step.printed}"


def test_pages_are_walked_one_after_the_other(folder: Path, rallypoint_program: str) -> None:
    """In one shell on one server, as a reader does who leaves that of getting started running."""
    started = pages.steps((TOP / "docs" / "getting-started.md").read_text())
    found = [step for step in started if not step.command.startswith("kill %1")]
    for name in WALKED:
        _copy_example(name, folder)
        found += pages.steps((TOP / "docs" / f"{name}.md").read_text())
    left = "rallypoint jobs list; rallypoint resource list; rallypoint list --state open\n"
    left += "psql -c '\\d'"
    found += [last := pages.Step(left, "…\n"), pages.Step("basename $PWD", f"{folder.name}\n")]
    _run_with_own_server(found, folder, _shell(folder, rallypoint_program))
    for step in found:
        assert step.fits(), f"{step.command}shows\n{step.shown}\nprints\n{step.printed}"
    # All that is left is the table of getting started.
    assert "no jobs" in last.printed, last.printed
    assert "no resources" in last.printed, last.printed
    assert "no schedulers" in last.printed, last.printed
    assert "(1 row)" in last.printed, last.printed


def _copy_example(name: str, folder: Path) -> None:
    if (example := TOP / "examples" / name).exists():
        shutil.copytree(example, folder / name)


def _shell(folder: Path, program: str) -> dict[str, str]:
    """The environment of a reader."""
    programs = Path(program).absolute().parent
    path = os.pathsep.join([str(programs), *map(str, _POSTGRES), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RALLYPOINT_")}
    return {**kept, "PATH": path, "HOME": str(folder), "USER": "anna"}


def _run_with_own_server(
    found: list[pages.Step], folder: Path, environment: dict[str, str]
) -> None:
    address = _free_address()
    own = {
        "RALLYPOINT_LISTEN": address,
        "RALLYPOINT_REPLICA": "a",
        "RALLYPOINT_SERVER": f"http://{address}",
        "RALLYPOINT_DATA_DIR": str(folder / "data"),
    }
    for step in found:
        step.command = step.command.replace(_DATA_DIR, own["RALLYPOINT_DATA_DIR"])
    pages.run(found, folder, environment | own)


def _of(server: RallypointServer) -> dict[str, str]:
    """What a shell is told of a server, and of the database of its target."""
    database = urlsplit(server.target_url)
    host, _, port = database.netloc.rpartition("@")[2].rpartition(":")
    return {
        "RALLYPOINT_SERVER": server.url,
        "RALLYPOINT_DATABASE": f"postgres://rallypoint@{host}:{port}/rallypoint",
        "RALLYPOINT_ADMIN_URL": f"postgres://postgres@{host}:{port}/app",
        "PGHOST": unquote(host),
        "PGPORT": port,
        "PGUSER": "app",
        "PGDATABASE": "app",
    }


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_a_night_that_failed_is_repaired_by_whoever_follows_its_page(
    folder: Path, rallypoint_program: str
) -> None:
    """As after getting started: its server is there. What is printed is compared in tests/it."""
    folder.joinpath("warehouse.log").touch()
    address, warehouse = _free_address(), _free_address()
    differs = {
        "/tmp/warehouse": str(folder / "warehouse"),
        "127.0.0.1:50061": warehouse,
        "sleep 600": "sleep 20",
        "rallypoint explain night 7": "sleep 2; rallypoint explain night 7",
        "(28023)": "(pid) from pg_stat_activity where application_name = $$payroll$$",
    }
    text = (TOP / "docs" / "failed-night.md").read_text()
    for shown, here in differs.items():
        assert shown in text, shown
        text = text.replace(shown, here)
    started = "rallypoint serve >server.log 2>&1 & until rallypoint health; do sleep 0.2; done\n"
    found = [pages.Step(started), *pages.steps(text)]
    for step in found:
        # All in one shell, as a reader has it.
        step.shown = step.shown or "…\n"
    path = os.pathsep.join([str(Path(rallypoint_program).absolute().parent), os.environ["PATH"]])
    own = {
        "PATH": path,
        "HOME": str(folder),
        "RALLYPOINT_LISTEN": address,
        "RALLYPOINT_SERVER": f"http://{address}",
        "RALLYPOINT_DATA_DIR": str(folder / "data"),
        "PGHOST": str(folder / "data"),
        "PGUSER": "app",
        "PGDATABASE": "app",
    }
    pages.run(found, folder, own)
    printed = {step.command.strip(): step.printed for step in found}
    everything = "\n".join(printed.values())
    assert "3 of 7 tasks succeeded" in printed["rallypoint exec --name night night.sql"], everything
    assert "dw cannot be reached" in printed["sleep 2; rallypoint explain night 7"], everything
    assert "7 of 7 ended tasks succeeded" in printed["rallypoint wait night"], everything
    assert "released" in printed["rallypoint release night"], everything


def test_what_the_page_on_schedules_applies_is_removed_at_its_end(
    folder: Path, rallypoint_program: str
) -> None:
    text = (TOP / "docs" / "schedules.md").read_text()
    blocks = dict.fromkeys(("toml", "sh"), "")
    for kind, block in re.findall(r"^```(toml|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Others have a crontab, or databases of other programs.
        if kind == "toml" or "rallypoint jobs apply" in block or "rallypoint jobs delete" in block:
            blocks[kind] += f"{block}\n"
    (folder / "jobs.toml").write_text(blocks["toml"])
    commands = blocks["sh"].replace("jobs log nightly DUE", "jobs get nightly")
    server = RallypointServer(rallypoint_program, [])
    try:
        server.start()
        found = [pages.Step(commands), last := pages.Step("rallypoint jobs list\n", "")]
        pages.run(found, folder, _shell(folder, rallypoint_program) | _of(server))
    finally:
        server.remove()
    assert last.printed.startswith("no jobs"), found[0].printed


def test_the_guard_is_installed_on_a_private_postgres_as_its_page_says(
    folder: Path, rallypoint_program: str
) -> None:
    (command,) = re.findall(r"^```sh\n.*?^```$", GUARD, re.MULTILINE | re.DOTALL)
    server = RallypointServer(rallypoint_program, [])
    try:
        server.start()
        path = os.pathsep.join([str(Path(rallypoint_program).parent), os.environ["PATH"]])
        pages.run(found := pages.steps(command), folder, {"PATH": path} | _of(server))
    finally:
        server.remove()
    assert found[0].printed == "the guard is installed, for app\n"


def test_the_logins_of_operations_are_all_that_is_needed(rallypoint_program: str) -> None:
    text = (TOP / "docs" / "operations.md").read_text()
    found = re.findall(r"^    (create (?:role|database) .*;)$", text, re.MULTILINE)
    assert len(found) == 4
    server = RallypointServer(rallypoint_program, [])
    try:
        server.start()
        reached = _of(server)
        socket_folder, port = reached["PGHOST"], reached["PGPORT"]
        with psycopg.connect(
            host=socket_folder, port=port, user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            # The private Postgres has logins and databases of these names.
            for statement in found:
                other = re.sub(r"\b(rallypoint|app)\b", r"\1_two", statement)
                connection.execute(other)
        place = f"host={socket_folder}&port={port}"
        url = f"postgres:///rallypoint_two?{place}&user=rallypoint_two"
        target = f"app=postgres:///app_two?{place}&user=app_two"
        said = server.run("migrate", "--database", url)
        found_by_doctor = server.run("doctor", "--database", url, "--target", target)
    finally:
        server.remove()
    assert "up to date" in said, said
    assert "target app: app_two can log in" in found_by_doctor, found_by_doctor


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("1 of 2 succeeded\n", "1 of 2 succeeded\n", True),
        ("1 of 2 succeeded\n", "0 of 2 succeeded\n", False),
        ("task  1  0.010 s\n", "task 1   1.250 s\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("at 2026-11-24T04:13:09.559916Z\n", "at 2026-12-01T00:00:00Z\n", True),
        ("at 2026-11-24 04:13:09.559Z\n", "at 2026-11-24T04:13:09.559916Z\n", False),
        ("pid … ends\n", "pid 4711 ends\n", True),
        ("a\n", "a\nb\n", False),
    ],
)
def test_what_counts_as_the_same(shown: str, printed: str, is_same: bool) -> None:
    assert pages.fits(shown, printed) is is_same


def test_a_block_that_nobody_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="a block of kind 'cobol'"):
        pages.steps("```cobol\nSTOP RUN.\n```\n")


def test_the_figures_for_sizing_are_those_that_were_measured() -> None:
    """After another `make bench` the page is brought up to date."""
    measured = (TOP / "benches" / "RESULTS.md").read_text()
    figures = re.findall(r"\*\*(\d.*?)\*\*", (TOP / "docs" / "sizing.md").read_text())
    assert len(figures) > 20

    numbers = [
        float(found.replace(" ", ""))
        for found in re.findall(r"(?<![\d.])(?:\d{1,3}(?: \d{3})+|\d+)(?:\.\d+)?", measured)
    ]

    def was_measured(figure: str) -> bool:
        """Rounded to as many digits as the page shows."""
        shown = re.match(r"[\d .]*\d", figure)
        assert shown is not None, figure
        digits = shown[0].replace(" ", "")
        value = float(digits) / (100 if "%" in figure else 1)
        if "." not in digits:
            digits = digits.rstrip("0")
        places = max(2, len(digits.replace(".", "").lstrip("0")))
        return any(float(f"{number:.{places}g}") == value for number in numbers)

    assert [figure for figure in figures if not was_measured(figure)] == []


def test_every_page_is_run_or_run_elsewhere() -> None:
    """A new page is added to NAMES, unless it has nothing to run."""
    elsewhere = {"cli", "control-table", "failed-night", "guard", "http", "log", "metrics"}
    elsewhere |= {"page", "schedules", "security", "top"}
    for file in (TOP / "docs").glob("*.md"):
        if file.stem not in {*NAMES, *elsewhere}:
            assert pages.kinds(file.read_text()) <= {"{toctree}"}, file.name
