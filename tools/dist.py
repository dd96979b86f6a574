"""Build the sdist and the wheel of the last commit into `dist/`, twice, and fail unless both have the same bytes.

The sources come from git, without changes in the working copy. The wheel is built from the unpacked sdist, which proves
that the sdist is complete. Run by `make dist`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*argv: str | Path, cwd: Path, **env: str) -> None:
    """Run a program; show its output if it fails."""
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")


def read_git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def build(target: Path) -> dict[str, str]:
    """Build both packages in a folder; return their digests by name."""
    date = read_git("log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        run("git", "clone", "--quiet", "--no-hardlinks", ROOT, tree, cwd=ROOT)
        run("git", "checkout", "--quiet", "--detach", read_git("rev-parse", "HEAD"), cwd=tree)
        path = f"{tree / 'src'}"
        run(sys.executable, tree / "tools/write_share.py", tree / "packaging/share", cwd=tree, PYTHONPATH=path)
        backend = (sys.executable, "-m", "hatchling", "build", "--directory", target)
        run(*backend, "--target", "sdist", cwd=tree, SOURCE_DATE_EPOCH=date)
        (sdist,) = target.glob("*.tar.gz")
        with tarfile.open(sdist) as tar:
            tar.extractall(temporary, filter="data")
        unpacked = Path(temporary) / sdist.name.removesuffix(".tar.gz")
        run(*backend, "--target", "wheel", cwd=unpacked, SOURCE_DATE_EPOCH=date)
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(target.iterdir())}


def main() -> None:
    """Build twice, compare, and keep the first."""
    if changes := read_git("status", "--porcelain"):
        print(f"Warning: {len(changes.splitlines())} uncommitted changes are not in the packages.", file=sys.stderr)
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"
    target.mkdir(exist_ok=True)
    for old in (*target.glob("hotdesk-*.whl"), *target.glob("hotdesk-*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        digests = build(Path(first))
        os.umask(0o077)
        if build(Path(second)) != digests:
            sys.exit("The packages are not reproducible: two builds of one commit differ.")
        os.umask(0o022)
        for name, digest in digests.items():
            (target / name).write_bytes((Path(first) / name).read_bytes())
            print(f"{digest}  {target.name}/{name}")


if __name__ == "__main__":
    main()
