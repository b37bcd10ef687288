"""A plugin for pytest that starts a real server, with a private Postgres, once a session.

Fixtures: `rallypoint`, a client of it, and `rallypoint_server`, the server. The program is that of
the option `--rallypoint-bin=FILE`, of RALLYPOINT_BIN, or on the PATH. More options of
`rallypoint serve` stand in the ini value `rallypoint_serve`, one a line.

This module imports the client only when a fixture is used, so tests without it pay nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from rallypoint import Client

START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
_GRACE = 0.5
_POLL_INTERVAL = 0.05
_LISTENING = re.compile(r"listening on (https?://\S+)")
_MEMORY = "/dev/shm"
_ROOM_BYTES = 2 << 30
# Its stdin is a pipe from this program, and is at its end when this program is gone, however it
# went: then the server is stopped, and what it has stored is removed.
_GUARD = """
read -r _
kill -TERM "$1" 2>/dev/null
left=200
while kill -0 "$1" 2>/dev/null && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
rm -rf "$2"
"""


class RallypointServer:
    """A running server with a Postgres of its own, in a temporary folder that goes with it."""

    def __init__(self, program: str | os.PathLike[str], options: Sequence[str] = ()) -> None:
        """`options`: more of them for `rallypoint serve`."""
        if isinstance(options, str):
            raise TypeError(f"options: give a list, like {options.split()!r}")
        self.program = os.fspath(program)
        #: With the data of the Postgres, and the log of the server.
        self.folder = Path(tempfile.mkdtemp(prefix="rallypoint-", dir=_in_memory()))
        if os.geteuid() == 0:
            # Postgres does not run as root; the account under which it does has to get there.
            self.folder.chmod(0o711)
        #: Where it listens; the same after a restart.
        self.url = ""
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> RallypointServer:
        """Starts it, and waits until it serves. Raises RuntimeError with its log if it does not."""
        if self.is_running:
            raise RuntimeError("it runs: stop() or kill() it before")
        listen = self.url.partition("://")[2] or "127.0.0.1:0"
        data = self.folder / "data"
        command = [self.program, "serve", "--listen", listen, "--data-dir", str(data)]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                command + self._options,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for this program.
            start_new_session=True,
        )
        end = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            if time.monotonic() > end or self._process.poll() is not None:
                self.kill()
                raise RuntimeError(f"`{' '.join(command)}` does not serve:\n{self.log}")
            time.sleep(_POLL_INTERVAL)
        return self

    def stop(self) -> None:
        """Stops it as an administrator does. `start` goes on with what it has stored."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash does (kill -9). `start` goes on with what it has stored."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Stops it, and removes what it has stored."""
        process = self._process
        if process is not None and self.is_running:
            process.send_signal(signal.SIGTERM)
            # A second signal: what runs is not waited for.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *arguments: str) -> str:
        """Runs the command line as a caller of this server; what it prints.

        Raises RuntimeError when it fails.
        """
        command = [self.program, "--server", self.url, *arguments]
        is_plain = self.url.startswith("http://")
        environment = _environment() if is_plain else None
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
        if ended.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` failed:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def target_url(self) -> str:
        """The database of the target `app`, on which tasks run, for a driver of Postgres."""
        return self._database_url("app")

    @property
    def admin_url(self) -> str:
        """The same for the superuser."""
        return self._database_url("postgres")

    @property
    def log_file(self) -> Path:
        """What the server writes."""
        return self.folder / "server.log"

    @property
    def log(self) -> str:
        """What it has written since its last start."""
        return self.log_file.read_text(errors="replace")

    def _database_url(self, role: str) -> str:
        # In the file of the postmaster: its id, data, start, port and the folder of its socket.
        lines = (self.folder / "data/data/postmaster.pid").read_text().splitlines()
        return f"postgresql://{role}@{quote(lines[4], safe='')}:{lines[3]}/app"

    def _is_ready(self) -> bool:
        found = _LISTENING.search(self.log)
        if found is None:
            return False
        self.url = found[1]
        health = [self.program, "--server", self.url, "health"]
        if self.url.startswith("https://"):
            return True
        asked = subprocess.run(health, capture_output=True, check=False, env=_environment())
        return asked.returncode == 0

    def _end(self, by: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        process.send_signal(by)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """That of this program, without what is set in it for the servers it calls otherwise."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("RALLYPOINT_") or key == "RALLYPOINT_PG_BIN"
    }


def _in_memory() -> str | None:
    """A folder whose files are in memory, where a test does not wait for the disk."""
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return None
    has_room = found.f_bavail * found.f_frsize >= _ROOM_BYTES
    return _MEMORY if has_room and os.access(_MEMORY, os.W_OK | os.X_OK) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("rallypoint")
    group.addoption(
        "--rallypoint-bin",
        metavar="FILE",
        help="the program rallypoint [default: RALLYPOINT_BIN, else the one on the PATH]",
    )
    parser.addini("rallypoint_serve", "options of `rallypoint serve`, one a line", type="linelist")


@pytest.fixture(scope="session")
def rallypoint_program(request: pytest.FixtureRequest) -> str:
    """The path of the program."""
    named = request.config.getoption("--rallypoint-bin") or os.environ.get("RALLYPOINT_BIN")
    found = shutil.which(named or "rallypoint")
    if found is None:
        what = f"{named} is no program" if named else "there is no rallypoint on the PATH"
        pytest.fail(f"{what}: give --rallypoint-bin=FILE, or set RALLYPOINT_BIN", pytrace=False)
    return found


@pytest.fixture(scope="session")
def rallypoint_server(
    request: pytest.FixtureRequest, rallypoint_program: str
) -> Iterator[RallypointServer]:
    """A server for the session."""
    server = RallypointServer(rallypoint_program, request.config.getini("rallypoint_serve"))
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def rallypoint(rallypoint_server: RallypointServer) -> Iterator[Client]:
    """A client of the server, for Scheduler, lock and the rest."""
    from rallypoint import Client

    with Client(rallypoint_server.url) as client:
        yield client
