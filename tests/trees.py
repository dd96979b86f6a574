"""Everything about the files of a desk as seen from inside: one line for each path."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TypeAlias

from hotdesk.desk.seam import Desk

IDENTITY = frozenset({"/etc/hostname", "/etc/hosts", "/etc/machine-id"})
"""Files that differ between desks, because they identify one."""
OWN = IDENTITY | {"/", "/etc", "/etc/resolv.conf", "/usr", "/usr/local", "/usr/local/bin", "/usr/local/bin/sudo"}
"""Files and folders written for each desk; their times are those of its opening."""
Tree: TypeAlias = dict[str, list[object]]
"""What was found for each path."""

WALK = r"""
import hashlib, json, os, stat
groups = {}
found = {}
def look(path):
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    told = [oct(info.st_mode), info.st_uid, info.st_gid, info.st_mtime_ns, info.st_rdev]
    told.append({name: os.getxattr(path, name, follow_symlinks=False).hex()
                 for name in sorted(os.listxattr(path, follow_symlinks=False))})
    if kind == stat.S_IFREG:
        try:
            with open(path, "rb") as file:
                told.append(hashlib.file_digest(file, "blake2b").hexdigest()[:32])
        except PermissionError:
            told.append(info.st_size)
    elif kind == stat.S_IFLNK:
        told.append(os.readlink(path).hex())
    if kind != stat.S_IFDIR:
        groups.setdefault((info.st_dev, info.st_ino), []).append(path)
    found[path] = told
    return kind == stat.S_IFDIR
def walk(path):
    if path not in (b"/proc", b"/sys", b"/dev", b"/run") and look(path) and os.access(path, os.R_OK | os.X_OK):
        for name in sorted(os.listdir(path)):
            walk(os.path.join(path, name))
walk(b"/")
for paths in groups.values():
    for path in paths if len(paths) > 1 else ():
        found[path].append(sorted(each.hex() for each in paths))
print(json.dumps({path.decode("utf-8", "backslashreplace"): told for path, told in found.items()}))
"""
"""Collects mode, owner, time, xattrs, content or target, and hard links of every path that is not in memory."""


async def tree(desk: Desk, user: str = "root") -> Tree:
    done = await desk.run(["python3", "-c", WALK], user=user, timeout=100)
    assert done.ok, done.stderr
    found: Tree = json.loads(done.stdout)
    return found


def differences(one: Tree, other: Tree, own: Collection[str] = ()) -> list[str]:
    """List the paths in which two trees differ. Those in `own` may differ in time, and in all if in `IDENTITY`."""
    found = []
    for path in sorted(one.keys() | other.keys()):
        told = [each.get(path) for each in (one, other)]
        if path in own and None not in told:
            told = [each[:3] + each[4:] for each in told if each is not None]
        if told[0] != told[1] and not (path in own and path in IDENTITY):
            found.append(f"{path}: {str(told[0])[:400]} became {str(told[1])[:400]}")
    return found[:10]
