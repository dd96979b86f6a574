"""Runs the command line as another user, without capabilities and with access to world-readable files only.

Python, its packages and this checkout may be in folders that only root can read; a mount namespace shows them to that
user at another path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

UID = 60000
"""The uid of a person's account."""
SOURCE = Path(__file__).parents[1] / "src"
SHOW = """
for name in python site src; do mount --bind "$1" "$ROOM/$name" || exit 99; shift; done
case "$BASE" in /root/*)  # a shared library of Python's is looked for there
  mount -t tmpfs -o mode=755 none /root && mkdir -p "$BASE" && mount --bind "$ROOM/python" "$BASE" || exit 98;;
esac
exec "$@"
"""
COMMAND = "from hotdesk.cli import main; main()"


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """An unprivileged user, and a folder of theirs."""

    folder: Path
    groups: tuple[int, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    uid: int = UID

    def prepare(self) -> OrdinaryUser:
        """Create the folder, and let other users traverse every folder above it."""
        for name in ("python", "site", "src", "home", "runtime"):
            (self.folder / name).mkdir(mode=0o755)
        self.make_environment()
        for name in ("home", "runtime"):
            os.chown(self.folder / name, self.uid, self.uid)
        return self

    def make_environment(self) -> None:
        """Create a virtual environment of the shown files: processes without variables find the packages there."""
        packages = self.folder / "venv" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        packages.parent.mkdir(mode=0o755, parents=True)
        packages.symlink_to(self.folder / "site")
        (self.folder / "venv/pyvenv.cfg").write_text(f"home = {self.python.parent}\n")
        (self.folder / "venv/bin").mkdir(mode=0o755)
        (self.folder / "venv/bin/python").symlink_to(self.python)

    @property
    def python(self) -> Path:
        """Return the path of Python as this user sees it."""
        return self.folder / "python" / Path(os.path.realpath(sys.executable)).relative_to(sys.base_prefix)

    def run(self, *argv: str, program: str = COMMAND, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run `hotdesk`, or another Python program, with arguments."""
        return subprocess.run(
            self.command(*argv, program=program),
            env=self.environment,
            cwd="/",
            input="",
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def command(self, *argv: str, program: str = COMMAND) -> list[str]:
        """Return the command line that runs `hotdesk`, or another Python program, as this user."""
        shown = [sys.base_prefix, sysconfig.get_path("purelib"), str(SOURCE)]
        member = ["--groups", ",".join(map(str, self.groups))] if self.groups else ["--clear-groups"]
        who = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), *member, "--bounding-set=-all"]
        alone = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SHOW, "sh", *shown]
        return [*alone, *who, str(self.folder / "venv/bin/python"), "-B", "-c", program, *argv]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "ROOM": str(self.folder),
            "BASE": sys.base_prefix,
            "HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "runtime"),
            "PYTHONPATH": f"{self.folder / 'src'}:{self.folder / 'site'}",
            "LD_LIBRARY_PATH": str(self.folder / "python/lib"),
            "LANG": "C.UTF-8",
            **self.variables,
        }
