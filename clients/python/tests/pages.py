"""Pages of `docs/` whose blocks are run, from top to bottom, in one shell and one folder.

- `console`: commands after `$`, and what they print, standard error included.
- `sh`: commands that succeed. `sql`: statements for psql. `python`: a program.
- `toml`, `sql`, `python` and `text` that begin with a comment such as `# jobs.toml`: a file.
- `text` right behind `sql` or `python`: what that prints.

What is shown has to be what is printed, but for ids, times, ports and numbers with a fraction. A
line `…` stands for any number of lines, and `…` within a line for any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:#|--) ([\w-]+\.(?:toml|sql|py|txt))\n")
_TIMEOUT = 60
# What differs from run to run, the longer forms first.
_VARIES = re.compile(
    r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<instant>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<time>\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d)?)?)"
    r"|(?P<duration>\d+(?:\.\d+)? ?[mµ]?s\b)|(?P<address>127\.0\.0\.1:\d+)"
    r"|(?P<number>\d+\.\d+)|(?P<any>…)|(?P<space>\s+)"
)
_FORMS = {
    "id": r"[0-9a-f-]{36}",
    "instant": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "time": r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d)?)?",
    "duration": r"\d+(?:\.\d+)? ?[mµ]?s",
    "address": r"127\.0\.0\.1:\d+",
    "number": r"\d+(?:\.\d+)?",
    "any": ".*",
    "space": r"\s+",
}


@dataclass
class Step:
    """A command, and what it is to print; None: it has to succeed, whatever it prints."""

    command: str
    shown: str | None = None
    #: Where in the page that stands.
    place: tuple[int, int] = (0, 0)
    printed: str = field(default="", init=False)

    def fits(self) -> bool:
        """Whether it has printed what is shown."""
        return self.shown is None or fits(self.shown, self.printed)


def fits(shown: str, printed: str) -> bool:
    """Whether this is printed, as the page shows it."""
    lines = [line.rstrip() for line in shown.splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else f"{_line(line)}\n" for line in lines)
    text = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text) is not None


def _line(line: str) -> str:
    parts, end = [], 0
    for found in _VARIES.finditer(line):
        parts += [re.escape(line[end : found.start()]), _FORMS[found.lastgroup or "any"]]
        end = found.end()
    return "".join([*parts, re.escape(line[end:])])


def kinds(page: str) -> set[str]:
    """Of which kinds the blocks of a page are."""
    return {block[1] for block in _FENCE.finditer(page)}


def steps(page: str) -> list[Step]:
    """The steps of a page. Raises ValueError for a block that nobody would run."""
    found: list[Step] = []
    previous = ""
    for block in _FENCE.finditer(page):
        kind, text = block[1], block[2]
        name = _FILE.match(text)
        if kind == "console":
            found += _commands(text, block.start(2))
        elif kind in ("toml", "sql", "python", "text") and name is not None:
            kept = text[name.end() :] if kind == "text" else text
            found.append(Step(_written(name[1], kept)))
        elif kind == "sh":
            found.append(Step(text))
        elif kind == "sql":
            found.append(
                Step(_written("page.sql", text) + "psql -qX -v ON_ERROR_STOP=1 -f page.sql")
            )
        elif kind == "python":
            found.append(Step(_written("page.py", text) + "python page.py"))
        elif kind == "text" and previous in ("sql", "python"):
            found[-1].shown, found[-1].place = text, block.span(2)
        elif kind != "{toctree}":
            raise ValueError(f"a block of kind {kind!r} that is not run: {text[:80]!r}")
        previous = kind
    return found


def _written(name: str, text: str) -> str:
    return f"cat > {name} <<'END-OF-FILE'\n{text}END-OF-FILE\n"


def _commands(text: str, start: int) -> list[Step]:
    found: list[Step] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Step(line[2:], "", (start + len(line), start + len(line))))
        elif line.startswith("> "):
            step = found[-1]
            step.command += line[2:]
            step.place = (start + len(line), start + len(line))
        else:
            step = found[-1]
            step.shown = (step.shown or "") + line
            step.place = (step.place[0], start + len(line))
        start += len(line)
    return found


def run(page: list[Step], folder: Path, environment: dict[str, str]) -> None:
    """Runs the steps in one shell. Raises AssertionError when one fails that has to succeed."""
    parts = ["set -u -o pipefail; shopt -s expand_aliases\n"]
    for number, step in enumerate(page):
        must = "" if step.shown is not None else f" || {{ touch {folder}/.failed; exit 1; }}"
        command = step.command if step.shown is not None else f"( set -e\n{step.command}\n)"
        parts.append(f"{{\n{command}\n}} > {folder}/.printed-{number} 2>&1{must}\n")
    parts.append("kill $(jobs -p) 2>/dev/null; sleep 0.5; kill $(jobs -p) 2>/dev/null; wait\n")
    (folder / ".page.sh").write_text("".join(parts))
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    ended = subprocess.run(
        ["bash", ".page.sh"],
        cwd=folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    for number, step in enumerate(page):
        file = folder / f".printed-{number}"
        step.printed = file.read_text(errors="replace") if file.exists() else "(not run)\n"
    assert not (folder / ".failed").exists(), "\n".join(s.printed for s in page) + ended.stderr


def updated(page: str, found: list[Step]) -> str:
    """The page with what was printed, where that is not what it shows."""
    for step in reversed(found):
        if not step.fits():
            begin, end = step.place
            printed = "".join(f"{line.rstrip()}\n" for line in step.printed.splitlines())
            page = page[:begin] + printed + page[end:]
    return page
