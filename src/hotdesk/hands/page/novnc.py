"""Locate noVNC, the JavaScript that shows a desk's screen, as the distribution packages it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from hotdesk.errors import HostError

PACKAGE = "novnc"
PARTS = {
    "core": "usr/share/novnc/core",
    "vendor": "usr/share/novnc/vendor",
    "copyright": "usr/share/doc/novnc/copyright",
}
"""The parts of the package that are used: the library and its licences, not its page."""


def get_folder(lib: Path) -> Path:
    return lib / "viewer" / "novnc"


def read_version(lib: Path) -> str | None:
    try:
        return (get_folder(lib) / "version").read_text().strip()
    except OSError:
        return None


def publish(lib: Path, package: Path) -> str:
    """Install the library from the package, completely or not at all; return its version."""
    place = get_folder(lib)
    place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        run_tool("dpkg-deb", "--extract", str(package), work)
        tree = Path(work) / "novnc"
        tree.mkdir()
        for name, inside in PARTS.items():
            (Path(work) / inside).rename(tree / name)
        (tree / "version").write_text(run_tool("dpkg-deb", "--field", str(package), "Version"))
        _write_protect(tree)
        if read_version(lib) is None:
            shutil.rmtree(place, ignore_errors=True)
        try:
            tree.rename(place)
        except OSError:
            if read_version(lib) is None:  # otherwise another process was first
                raise
    return read_version(lib) or ""


def run_tool(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise HostError(f"`{argv[0]} {argv[1]}` failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def _write_protect(tree: Path) -> None:
    for each in (tree, *tree.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
