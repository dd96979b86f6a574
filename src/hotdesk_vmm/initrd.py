"""The initial file system of a microVM: a busybox, the kernel modules it needs, a script, and the guest's code."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hotdesk_vmm.task import Layer

BUSYBOX = Path("/usr/bin/busybox")
MODULES = Path("/usr/lib/modules")
NEEDED = ("virtio_pci", "virtio_blk", "virtio_console", "erofs", "ext4", "overlay")
"""Modules a machine needs; those built into its kernel do not exist as files."""
_FILE, _FOLDER = 0o100755, 0o040755
_SCRIPT = """#!/bin/busybox sh
b=/bin/busybox
fail() {{ echo "hotdesk: the virtual machine failed: $*"; $b poweroff -f; }}
$b mkdir -p /proc /sys /dev /ro /run
$b mount -t proc proc /proc && $b mount -t sysfs sys /sys && $b mount -t devtmpfs dev /dev || fail "no /dev"
exec </dev/console >/dev/console 2>&1
for module in {modules}; do $b insmod /modules/$module || fail "no module $module"; done
$b mount -t tmpfs -o mode=755,size=32m run /run
$b mkdir -p /run/new /run/disk /run/hotdesk/lib
layer() {{
    $b mkdir -p /run/layers/$1
    for block in /sys/block/vd*; do
        [ "$($b cat $block/serial)" = layer$1 ] || continue
        $b mount -t $2 -o ro,nosuid,nodev$3 /dev/${{block##*/}} /run/layers/$1 && return
    done
    fail "no layer $1"
}}
{layers}
{root}
$b cp -r /guest /run/hotdesk/lib/hotdesk_guest
for folder in run proc sys dev; do $b mount -o move /$folder /ro/$folder || fail "no /$folder in the image"; done
exec $b env -i PATH=/usr/bin:/bin HOME=/home/user LANG=C.UTF-8 $b switch_root /ro {command} || fail "no {python}"
"""


def find_kernel() -> str:
    releases = sorted(each.name for each in MODULES.iterdir() if Path(f"/boot/vmlinuz-{each.name}").is_file())
    if not releases:
        raise OSError("the image vmm has no Linux kernel; `hotdesk setup --wall microvm` builds it again")
    return releases[-1]


def list_modules(folder: Path, needed: Sequence[str] = NEEDED) -> list[Path]:
    """Return the files of kernel modules and of their dependencies, in loading order."""
    order: list[Path] = []
    depends: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        depends[file] = others.split()
    by_name = {_encode_name(file): file for file in depends}
    for name in needed:
        if (module := by_name.get(name)) is not None:
            for file in (*reversed(depends[module]), module):
                if folder / file not in order:
                    order.append(folder / file)
    return order


def _encode_name(file: str) -> str:
    return os.path.basename(file).partition(".")[0].replace("-", "_")


def _read_module(file: Path) -> bytes:
    data = file.read_bytes()
    return lzma.decompress(data) if file.suffix == ".xz" else data


def write_script(modules: Sequence[str], layers: Sequence[Layer], python: str, start: str) -> str:
    mounts = [
        f"layer {number} {layer.kind} {',' + layer.options if layer.options else ''}".rstrip()
        for number, layer in enumerate(layers)
    ]
    lower = ":".join(f"/run/layers/{number}" for number in range(len(layers)))
    one = "$b mount -o bind /run/layers/0 /ro"
    root = one if len(layers) == 1 else f"$b mount -t overlay -o ro,lowerdir={lower} ro /ro"
    command = f"{python} -I -S -B /run/hotdesk/lib/hotdesk_guest/{start} /run/hotdesk machine {len(layers)}"
    return _SCRIPT.format(
        modules=" ".join(modules),
        layers="\n".join(mounts),
        root=f'{root} || fail "no root"',
        command=command,
        python=python,
    )


def build(folder: Path, busybox: Path, layers: Sequence[Layer], guest: Path, python: str, start: str) -> bytes:
    """Return the complete initial file system; `folder` has the kernel's modules."""
    modules = list_modules(folder)
    names = [each.name.removesuffix(".xz") for each in modules]
    entries = [("bin", b""), ("bin/busybox", busybox.read_bytes()), ("modules", b""), ("guest", b"")]
    entries += [(f"modules/{name}", _read_module(file)) for name, file in zip(names, modules, strict=True)]
    entries += [(f"guest/{file.name}", file.read_bytes()) for file in sorted(guest.iterdir()) if file.is_file()]
    entries.append(("init", write_script(names, layers, python, start).encode()))
    return b"".join(_archive(entries))


def _archive(entries: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield a cpio archive in the kernel's format. Entries without data are folders."""
    for number, (name, data) in enumerate(entries, 1):
        yield from _encode_entry(number, name, _FILE if data else _FOLDER, data)
    yield from _encode_entry(0, "TRAILER!!!", 0, b"")


def _encode_entry(number: int, name: str, mode: int, data: bytes) -> Iterator[bytes]:
    numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % each for each in numbers) + name.encode() + b"\0"
    yield head + bytes(-len(head) % 4)
    yield data + bytes(-len(data) % 4)
