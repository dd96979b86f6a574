"""Parts that `hotdesk setup` and `setup --undo` share: steps, apt, the account, and a record of changes."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

from hotdesk.cli.machine.image import say
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, make_printable
from hotdesk.strict import StrictError, parse_json, read

ACCOUNT = "hotdesk"
RECORD = "setup.json"
"""File in a state directory's `lib`."""
APT = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
LAST_LINES = 8


@dataclass(frozen=True, slots=True)
class SetupStep:
    """The outcome of one step."""

    name: str
    outcome: str
    changed: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}"


@dataclass(frozen=True, slots=True)
class SetupRecord:
    """Changes that set-up made to this machine outside its own folders."""

    packages: tuple[str, ...] = ()
    """Debian packages it installed."""
    link: str = ""
    """Path of the link to the command, or `""`."""


def read_record(settings: Config) -> SetupRecord:
    """Read the record of changes; return an empty one if there is none."""
    try:
        return read(SetupRecord, parse_json((settings.lib / RECORD).read_bytes()))
    except (OSError, StrictError):
        return SetupRecord()


def write_record(settings: Config, record: SetupRecord) -> None:
    """Write the record of changes; an empty record removes the file."""
    path = settings.lib / RECORD
    if record == SetupRecord():
        path.unlink(missing_ok=True)
        return
    settings.lib.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(record), indent=1) + "\n")
    fresh.replace(path)


def note_packages(settings: Config, packages: list[str]) -> None:
    """Add packages to the record before they are installed, so that an interrupted installation can be undone too."""
    if not packages:
        return
    record = read_record(settings)
    write_record(settings, replace(record, packages=tuple(dict.fromkeys((*record.packages, *packages)))))


def has_account() -> bool:
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        return False
    return True


def run_apt(*argv: str, cwd: Path | None = None) -> None:
    """Run apt-get in a session of its own, so that Ctrl-C cannot interrupt dpkg, which would need a manual repair."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(
        [*APT, *argv],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = child.communicate()
    except KeyboardInterrupt:
        say("packages: interrupted; waiting for apt-get to finish first")
        child.communicate()
        raise
    if child.returncode != 0:
        lines = "\n".join(f"  {make_printable(line)}" for line in output.splitlines()[-LAST_LINES:])
        raise HostError(
            f"`apt-get {argv[0]}` failed; fix the reported problem, then run `hotdesk setup` again:\n{lines}"
        )
