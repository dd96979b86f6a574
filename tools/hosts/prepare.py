"""Install and set up hotdesk on a machine's disk before it starts: in a chroot, with this machine's kernel.

Emulated, these two steps take half of a row's time. This shows the others sooner; a machine that was prepared never
counts as passed.
"""

from __future__ import annotations

from pathlib import Path

from tools.hosts.kit import Kit
from tools.hosts.machines import Machine
from tools.hosts.root import PERSON, run
from tools.hosts.steps import get_install_command, get_setup_command

_CHROOT = r"""set -e
root=$1; disk=$2; kit=$3; shift 3
mount -o loop "$disk" "$root"
mount -o loop,ro,noload "$kit" "$root/kit"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/run/old" && mkdir -m 700 "$root/run/hotdesk-uids" && ln -s 12000 "$root/run/hotdesk-uids/next"
cd "$root"
pivot_root . run/old
umount -l /run/old
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
for line; do
  su --login "$PERSON" --command "$line"
done
sync
"""
"""User ids in a range that desks of this machine are unlikely to use, as claims of ids are not shared with it."""


def prepare(machine: Machine, disk: Path, kit: Kit, mount_point: Path) -> None:
    """Run the commands of the steps `install` and `setup` on a disk."""
    lines = (get_install_command(machine), get_setup_command(machine, kit.signer))
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    run(*apart, "env", f"PERSON={PERSON}", "sh", "-c", _CHROOT, "sh", mount_point, disk, kit.disk, *lines)
