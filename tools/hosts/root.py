"""A Debian as its installer leaves it: root file system, kernel, initial ramdisk, and packages to install later.

Made by mmdebstrap from this machine's package sources, once for each release and choice of packages, and cached.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.hosts.machines import Machine

from hotdesk.desk.image import requirements, sources
from hotdesk.hands.page import novnc

DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
SYSTEM = """
apt ca-certificates dbus initramfs-tools iproute2 kmod libpam-systemd login passwd pipx procps python3 python3-venv sudo
systemd systemd-sysv udev zstd
""".split()
"""Packages of a small installation, and pipx, which the guide asks for."""
PERSON = "marie"
"""The person who installs hotdesk: an ordinary user who may use sudo."""
_RAMDISK = """#!/bin/sh
[ "$1" = prereqs ] && exit 0
. /usr/share/initramfs-tools/hook-functions
for module in virtio_pci virtio_blk virtio_console ext4 btrfs xfs; do manual_add_modules $module; done
"""
"""Loads only the modules of the disk: in emulation, unpacking the usual ramdisk takes longer than booting."""
_BEFORE_KERNEL = f"""set -e
mkdir -p "$1/etc/initramfs-tools/conf.d" "$1/etc/initramfs-tools/hooks"
echo MODULES=list > "$1/etc/initramfs-tools/conf.d/lab"
cat > "$1/etc/initramfs-tools/hooks/lab" <<'END'
{_RAMDISK}END
chmod 755 "$1/etc/initramfs-tools/hooks/lab"
"""
_AFTER = f"""set -e
chroot "$1" useradd --create-home --shell /bin/bash {PERSON}
echo '{PERSON} ALL=(ALL) NOPASSWD: ALL' > "$1/etc/sudoers.d/{PERSON}"
chmod 440 "$1/etc/sudoers.d/{PERSON}"
mkdir -p "$1/var/lab-packages"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
apt-get --quiet install --yes --download-only --no-install-recommends PACKAGES
(cd "$1/var/lab-packages" && apt-get --quiet download -o APT::Sandbox::User=root {novnc.PACKAGE})
mv "$1"/var/cache/apt/archives/*.deb "$1/var/lab-packages"
"""
PACKAGES_FOLDER = "var/lab-packages"


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system that is ready to be put on a disk."""

    folder: Path

    @property
    def archive(self) -> Path:
        """Return the tar file of the root file system."""
        return self.folder / "root.tar"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def ramdisk(self) -> Path:
        return self.folder / "initrd"

    @property
    def packages(self) -> Path:
        """Return the folder of Debian packages that set-up installs."""
        return self.folder / "packages"

    @property
    def python(self) -> str:
        """Return the version of its Python, as `3.13`."""
        return (self.folder / "python").read_text()


def include(machine: Machine) -> list[str]:
    """List the Debian packages of a machine."""
    kernel = f"linux-image-{DEBIAN_ARCH[os.uname().machine]}"
    needed = requirements.list_packages(requirements.look()) if machine.is_usr_read_only else ()
    return sorted({kernel, *SYSTEM, *machine.packages, *needed})


def make(machine: Machine, cache: Path) -> Root:
    """Return a machine's root file system; make it if needed."""
    packages = include(machine)
    text = "\0".join((machine.release, os.uname().machine, *packages, _BEFORE_KERNEL, _AFTER))
    folder = cache / f"{machine.release}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not (folder / "python").exists():
        shutil.rmtree(folder, ignore_errors=True)
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        bootstrap(machine, packages, fresh)
        fresh.rename(folder)
    return Root(folder)


def bootstrap(machine: Machine, packages: list[str], folder: Path) -> None:
    """Run mmdebstrap, and extract what the emulator needs."""
    lines = sources.format_lines(sources.read(), "debian", machine.release, sources.list_keyrings("debian"))
    options = [f"--aptopt={line}" for line in sources.read_settings()]
    later = " ".join(requirements.list_packages(requirements.look()))
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=tar", f"--include={','.join(packages)}"]
    argv += [f"--essential-hook={_BEFORE_KERNEL}", f"--customize-hook={_AFTER.replace('PACKAGES', later)}"]
    archive = folder / "root.tar"
    run(*argv, *options, machine.release, archive, *lines)
    unpack(archive, folder)


def unpack(archive: Path, folder: Path) -> None:
    """Extract kernel, ramdisk and packages from the archive, and record its version of Python."""
    packages = folder / "packages"
    packages.mkdir()
    python = ""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if name.startswith("boot/vmlinuz-"):
                extract(tar, member, folder / "vmlinuz")
            elif name.startswith("boot/initrd.img-"):
                extract(tar, member, folder / "initrd")
            elif name.startswith(f"{PACKAGES_FOLDER}/") and name.endswith(".deb"):
                extract(tar, member, packages / Path(name).name)
            elif name == "usr/bin/python3":
                python = member.linkname.removeprefix("python")
    (folder / "python").write_text(python)


def extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Copy one regular file out of an archive."""
    source = tar.extractfile(member)
    assert source is not None, f"{member.name} is not a regular file"
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file)


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program of this machine; return its output, which is shown if it fails."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, argv[:4]))} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
