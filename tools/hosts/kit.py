"""The kit: everything that a machine's steps need, on a read-only disk, because the machine has no network."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools import dist_check
from tools.hosts.disk import KIT, make_kit_disk
from tools.hosts.root import Root, run

ROOT = Path(__file__).parents[2]
EXTRA = ("e2b", "hypothesis", "pip", "pytest", "pytest-timeout", "setuptools", "wheel")
"""Packages that tests and programs of the steps import, and those that pipx needs for its environments."""
_COMPILE = r"""set -e
mount -o loop,ro,noload "$1" "$2" 2>/dev/null || mount -o loop,ro "$1" "$2"
mount --bind "$3" "$2$4"
chroot "$2" python3 -m compileall -q "$4/library" || true
umount "$2$4" "$2"
"""


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An exported image, and its signer."""

    path: Path
    signer: str


@dataclass(frozen=True, slots=True)
class Kit:
    """A disk with everything, and what is needed to use it."""

    disk: Path
    wheel: str
    """The wheel's file name."""
    signer: str


def find_wheel() -> Path:
    """Return the wheel that `make dist` built."""
    wheels = sorted((ROOT / "dist").glob("hotdesk-*.whl"))
    if len(wheels) != 1:
        raise SystemExit("There must be one wheel in dist/: run `make dist`.")
    return wheels[0]


def digest_tests(lab: str = "tools/hosts") -> str:
    """Return a digest of the tests and of the lab, or of a part of it, in their current state."""
    found = hashlib.sha256()
    for folder in (ROOT / "tests", ROOT / lab):
        for path in sorted(folder.rglob("*.py")):
            found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def export_base(cache: Path) -> BaseImage:
    """Export this machine's base image once, signed with a new key."""
    folder = cache / "base"
    if not (folder / "signer").exists():
        with tempfile.TemporaryDirectory(prefix="hotdesk-lab-") as temporary:
            Path(temporary).chmod(0o755)
            signer = dist_check.export_base(Path(temporary))
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(temporary) / "base.image", folder)
        (folder / "signer").write_text(signer)
    return BaseImage(folder / "base.image", (folder / "signer").read_text())


def make(root: Root, root_disk: Path, base: BaseImage, cache: Path) -> Kit:
    """Return the disk for machines with this root file system; make it if needed."""
    wheel = find_wheel()
    parts = (wheel.name, hash_file(wheel), digest_tests("tools/hosts/inside"), root.folder.name, base.signer)
    key = hashlib.sha256("\0".join(parts).encode())
    disk = cache / f"kit-{key.hexdigest()[:12]}.img"
    if not disk.exists():
        for old in cache.glob("kit-*.img"):
            if root.folder.name in (old.with_suffix(".root").read_text() if old.with_suffix(".root").exists() else ""):
                old.unlink()
        with tempfile.TemporaryDirectory(prefix="hotdesk-kit-", dir=cache) as temporary:
            folder = Path(temporary) / "kit"
            fill(folder, root, wheel, base, download(root, wheel, cache))
            compile_library(root_disk, folder, Path(temporary))
            make_kit_disk(folder, disk.with_suffix(".new")).rename(disk)
        disk.with_suffix(".root").write_text(root.folder.name)
    return Kit(disk, wheel.name, base.signer)


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(root: Root, wheel: Path, cache: Path) -> Path:
    """Download the wheels that a machine's Python needs, from this machine's own index, unless they exist."""
    with zipfile.ZipFile(wheel) as file:
        metadata = next(file.read(name) for name in file.namelist() if name.endswith(".dist-info/METADATA"))
    needs = [line for line in metadata.decode().splitlines() if line.startswith(("Requires-Dist", "Provides-Extra"))]
    key = hashlib.sha256("\n".join((*needs, *EXTRA)).encode()).hexdigest()[:12]
    folder = cache / f"wheels-{root.python}-{key}"
    if not folder.exists():
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "download", "--only-binary=:all:"]
        run(*pip, "--python-version", root.python, "--dest", fresh, f"{wheel}[serve]", *EXTRA)
        for own in fresh.glob("hotdesk-*.whl"):
            own.unlink()
        fresh.rename(folder)
    return folder


def fill(folder: Path, root: Root, wheel: Path, base: BaseImage, wheels: Path) -> None:
    """Put everything into a folder."""
    shutil.copytree(wheels, folder / "wheels")
    shutil.copy(wheel, folder / "wheels")
    shutil.copytree(root.packages, folder / "packages")
    (folder / "packages/Packages").write_text(index_packages(folder / "packages"))
    shutil.copy(base.path, folder / "base.image")
    for path in wheels.glob("*.whl"):
        with zipfile.ZipFile(path) as file:
            file.extractall(folder / "library")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", folder / "tree/tests", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder / "tree")
    shutil.copytree(Path(__file__).parent / "inside", folder / "inside", ignore=ignore)


def index_packages(folder: Path) -> str:
    """Write the index that makes a folder of Debian packages a source for apt."""
    entries = []
    for path in sorted(folder.glob("*.deb")):
        fields = run("dpkg-deb", "--field", path).strip()
        entries.append(f"{fields}\nFilename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {hash_file(path)}\n")
    return "\n".join(entries)


def compile_library(root_disk: Path, kit: Path, work: Path) -> None:
    """Compile the library with the machine's own Python here, without the slow emulation."""
    mount_point = work / "mnt"
    mount_point.mkdir()
    apart = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _COMPILE, "sh"]
    done = subprocess.run([*apart, root_disk, mount_point, kit, KIT], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the library could not be compiled: {done.stderr[-2000:]}")
