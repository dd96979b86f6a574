"""The disks of a machine: its root file system, and the read-only one with the kit.

Everything is mounted in a separate mount namespace, so that no mount and no loop device outlives the program.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from tools.hosts.machines import FileSystem, Machine
from tools.hosts.root import PACKAGES_FOLDER, Root, run

_MAKE: dict[FileSystem, tuple[str, ...]] = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
KIT = "/kit"
AGENT_UNIT = """[Unit]
Description=answers the host lab
After=systemd-user-sessions.service

[Service]
ExecStart=/usr/bin/python3 -B /etc/lab/agent.py
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
Delegate=yes
TasksMax=infinity
Restart=always

[Install]
WantedBy=multi-user.target
"""
PATIENT_SYSTEMD = "[Manager]\nDefaultTimeoutStartSec=1800\nDefaultDeviceTimeoutSec=1800\n"
"""In slow emulation the journal and the console take longer than the usual 90 s; hotdesk's own unit sets its limit."""
_FILL = r"""set -e
image=$1; mount_point=$2; archive=$3; files=$4; shift 4
mount -o loop "$image" "$mount_point"
cd "$mount_point"
tar --extract --numeric-owner --xattrs --xattrs-include='*' --exclude="./$PACKAGES" --file "$archive"
cd /
cp --recursive --no-preserve=ownership "$files/." "$mount_point"
ln -sf /usr/lib/systemd/system/multi-user.target "$mount_point/etc/systemd/system/default.target"
mkdir -p "$mount_point/etc/systemd/system/multi-user.target.wants" "$mount_point/kit"
ln -sf ../lab-agent.service "$mount_point/etc/systemd/system/multi-user.target.wants"
for timer in apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_all fstrim man-db; do
  ln -sf /dev/null "$mount_point/etc/systemd/system/$timer.timer"
done
touch "$mount_point/etc/.updated" "$mount_point/var/.updated"
rm -rf "$mount_point"/var/lib/apt/lists/* "$mount_point"/etc/apt/sources.list.d/*
rm -f "$mount_point"/etc/apt/apt.conf.d/99mmdebstrap
[ -z "$READ_ONLY_USR" ] || cp -a "$mount_point/usr/local" "$mount_point/var/usr-local"
for module in "$@"; do
  find "$mount_point"/usr/lib/modules -name "$module.ko*" -delete
done
if [ $# -gt 0 ]; then chroot "$mount_point" depmod -a "$(ls "$mount_point/usr/lib/modules")"; fi
umount "$mount_point"
"""
"""Like a Debian that was started before: with an id, and with its indexes built (`.updated`)."""


def make_root_disk(machine: Machine, root: Root, work: Path) -> Path:
    """Put a root file system with a machine's own files onto a disk."""
    image = work / "root.img"
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(machine.disk_gib << 30)
    run(*_MAKE[machine.filesystem], image)
    files = work / "files"
    write_files(machine, files)
    mount_point = work / "mnt"
    mount_point.mkdir(exist_ok=True)
    variables = [f"PACKAGES={PACKAGES_FOLDER}", f"READ_ONLY_USR={'1' if machine.is_usr_read_only else ''}"]
    apart = ["unshare", "--mount", "--propagation", "private", "env", *variables, "sh", "-c", _FILL, "sh"]
    run(*apart, image, mount_point, root.archive, files, *machine.without_modules)
    return image


def write_files(machine: Machine, folder: Path) -> None:
    """Write the files that turn a Debian into this machine of the lab."""
    inside = Path(__file__).parent / "inside"
    texts = {
        "etc/fstab": fstab(machine),
        "etc/machine-id": f"{uuid4().hex}\n",
        "etc/hostname": "lab\n",
        "etc/hosts": "127.0.0.1 localhost lab\n",
        "etc/pip.conf": f"[global]\nno-index = true\nfind-links = {KIT}/wheels\ndisable-pip-version-check = true\n",
        "etc/apt/sources.list": f"deb [trusted=yes] file:{KIT}/packages ./\n",
        "etc/initramfs-tools/update-initramfs.conf": "update_initramfs=no\n",  # the emulator loads another one
        "etc/sysctl.d/lab.conf": "".join(f"{name} = {value}\n" for name, value in machine.sysctls),
        "etc/systemd/system.conf.d/lab.conf": PATIENT_SYSTEMD,
        "etc/systemd/system/lab-agent.service": AGENT_UNIT,
        "etc/lab/agent.py": (inside / "agent.py").read_text(),
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def fstab(machine: Machine) -> str:
    """Return the machine's /etc/fstab. In slow emulation a disk appears after systemd's usual 90 s."""
    kit = f"/dev/vdb {KIT} ext4 ro,x-systemd.device-timeout=0 0 0"
    lines = [f"/dev/vda / {machine.filesystem} rw,relatime 0 0", kit]
    if machine.is_usr_read_only:
        lines += ["/usr /usr none bind,ro 0 0"]
        lines += ["/var/usr-local /usr/local none bind,x-systemd.requires-mounts-for=/usr 0 0"]
    return "\n".join(lines) + "\n"


def make_kit_disk(kit: Path, image: Path) -> Path:
    """Put a folder onto a read-only disk of the size it needs."""
    size = sum(path.stat().st_size for path in kit.rglob("*") if path.is_file())
    count = sum(1 for _ in kit.rglob("*"))
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate((size + count * 8192 + (64 << 20)) // 4096 * 4096)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0", "-N", str(count + 1000), "-d", kit, image)
    return image
