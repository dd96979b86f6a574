"""A container to run hotdesk in: Podman on a bare Debian root file system, with this checkout and an exported image.

No registry is used: mmdebstrap makes the root file system from the machine's own package sources. The containers have
no network; their root is an overlay, as in containers made from images.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hotdesk.desk.image import requirements, sources
from hotdesk.hands.page import novnc

SUITE = "bookworm"
LIBRARIES = ("libssl3", "libffi8", "libsqlite3-0", "libbz2-1.0", "liblzma5", "libreadline8", "zlib1g", "libexpat1")
"""Libraries that a Python built on this machine links to."""
SOURCE = Path(__file__).parents[1] / "src"
INSTALLED = Path("/usr/lib/hotdesk")
SECLUDE = 'if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi; exec "$@"'
"""crun before 1.9 refuses to start if both versions of cgroups are mounted."""
NEEDED = (
    "--cap-add=NET_ADMIN",
    "--cap-add=SYS_PTRACE",
    "--cap-add=SYS_ADMIN",
    "--cap-add=MKNOD",
    "--device-cgroup-rule=c 10:237 rwm",
    "--device-cgroup-rule=b 7:* rwm",
)
"""The options that a restricted container needs besides its volumes, as the guide lists them."""


@dataclass(frozen=True, slots=True)
class PodmanHost:
    """A root file system, and the folders where Podman stores the state of its containers."""

    folder: Path
    signer: str

    @property
    def state(self) -> str:
        return f"--volume={self.folder / 'lib'}:/var/lib/hotdesk"

    @property
    def cgroups(self) -> str:
        is_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        return "--security-opt=unmask=/sys/fs/cgroup" if is_v2 else "--volume=/sys/fs/cgroup:/sys/fs/cgroup"

    @property
    def setup(self) -> str:
        return f"hotdesk setup --from /base.image --signer {self.signer}"

    def run(self, script: str, *options: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        own = [f"--{name}={self.folder / name}" for name in ("root", "runroot", "tmpdir")]
        podman = ["podman", "--cgroup-manager=cgroupfs", "--runtime=crun", *own, "run", "--rm", "--network=none"]
        podman += [
            "--ulimit=nofile=20000:20000",
            "--ulimit=nproc=4096:4096",
        ]  # on some machines root is refused more than that
        shared = {sys.prefix, sys.base_prefix}
        volumes = [f"--volume={path}:{path}:ro" for path in sorted(shared)]
        volumes.append(f"--volume={self.folder / 'base.image'}:/base.image:ro")
        alone = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", SECLUDE, "sh"]
        command = [*alone, *podman, *volumes, *options, "--rootfs", f"{self.folder / 'debian'}:O", "sh", "-c", script]
        return subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=timeout)

    def clear(self) -> None:
        """Remove what Podman left: its folders, and cgroups without processes."""
        for hierarchy in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")):
            parent = hierarchy / "libpod_parent"
            for each in sorted(parent.rglob("*"), reverse=True):
                if each.is_dir():
                    each.rmdir()
            if parent.is_dir():
                parent.rmdir()
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)


def make(folder: Path, images: Path) -> PodmanHost:
    """Make a root file system with the command `hotdesk` in it, and export the image `base`."""
    root = folder / "debian"
    lines = sources.format_lines(sources.read(), "debian", SUITE, sources.list_keyrings("debian"))
    packages = (*requirements.list_packages(requirements.look()), *LIBRARIES)
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--skip=cleanup/apt/lists"]
    options = [f"--aptopt={line}" for line in sources.read_settings()]
    subprocess.run(
        [*argv, f"--include={','.join(packages)}", *options, SUITE, root, *lines], check=True, capture_output=True
    )
    install(root)
    for name in ("root", "runroot", "tmpdir", "lib", "home"):
        (folder / name).mkdir(mode=0o755)
    shutil.copytree(novnc.get_folder(images.parent), novnc.get_folder(folder / "lib"))
    return PodmanHost(folder, export(folder, images))


def install(root: Path) -> None:
    place = root / INSTALLED.relative_to("/")
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "compileall", "-q", "-s", str(root), str(place)]
    subprocess.run(argv, check=True, capture_output=True)
    command = root / "usr/local/bin/hotdesk"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={INSTALLED} exec {sys.executable} -c "from hotdesk.cli import main; main()" "$@"\n'
    )
    command.chmod(0o755)


def export(folder: Path, images: Path) -> str:
    """Export the machine's base image, signed with a new key; return the key's fingerprint."""
    env = {**os.environ, "HOTDESK_HOME": str(folder / "home"), "HOTDESK_IMAGES": str(images)}
    env["PYTHONPATH"] = str(SOURCE)
    hotdesk = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
    for argv in (["image", "export", "base", str(folder / "base.image")], ["key", "show", "--json"]):
        done = subprocess.run([*hotdesk, *argv], env=env, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["fingerprint"])
