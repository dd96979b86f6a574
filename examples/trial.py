"""What examples are tried in: a state directory of a trial's own, gone when it ends, and `hotdesk` run in it."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotdesk import config

HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]


def arguments(what: str) -> argparse.Namespace:
    """Read the command line all examples have."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument(
        "--out", type=Path, default=Path(), help="the folder results are copied to; this one if not said"
    )
    parser.add_argument("--seed", type=int, default=0, help="another number, another task of the same kind")
    told = parser.parse_args()
    told.out.mkdir(parents=True, exist_ok=True)
    return told


@contextmanager
def state(name: str) -> Iterator[Path]:
    """Give a state directory for the length of a block."""
    home = Path(tempfile.mkdtemp(prefix=f"hotdesk-{name}-"))
    home.chmod(0o711)  # desks' own users must be able to reach their rooms
    try:
        yield home
    finally:
        shutil.rmtree(home)


def make_way(brief: Path, out: Path) -> None:
    """Remove what an earlier trial left: its state is gone, and so nobody could say that it was a copy of ours."""
    for item in tomllib.loads((brief / "brief.toml").read_text())["deliverables"]:
        (out / item["path"]).unlink(missing_ok=True)


def work(home: Path, brief: Path, out: Path, settings: str = "") -> int:
    """Carry out a brief as a person would; give the exit code of `hotdesk work`."""
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/config.toml").write_text(settings)
    own = {"HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(config.load().images), "PICTURES": str(out)}
    make_way(brief, out)
    argv = [*HOTDESK, "work", str(brief), "--script", str(brief / "brain.py"), "--out", str(out)]
    try:
        return subprocess.run(argv, env={**os.environ, **own}, check=False).returncode
    except KeyboardInterrupt:
        return 130  # it burns its desks itself
