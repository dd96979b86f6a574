"""Host user ids of desks: a range for each desk, reserved in /etc/subuid, never shared, and reused as late as possible.

This state is global to the machine, because several state directories must never use one id twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.linux.filelock import hold_lock

FIRST = 0x70000000
"""Start of a range that systemd's uid plan leaves unused; LXD, nspawn and podman use other ranges."""
WIDTH = 1024
"""Number of host ids of a desk: those of its id map, two for processes outside of it, and a few that stay unused."""
SLOTS = 16384
NOBODY, ANCHOR, SUPERVISOR = 1001, 1002, 1003
"""Ids that a desk's programs cannot have: the overflow user, its user namespace's owner, and the sandbox's supervisor.

Only the first is in the desk's id map.
"""
DOOR = FIRST + WIDTH * SLOTS - 1
"""The door's user, at the end of the range, which no desk's range includes."""
KEYS = DOOR - 1
"""The only user who can read the vault and write the journal."""
RESOLVER = DOOR - 2
"""The user of the door's child that resolves names."""
READER = DOOR - 3
"""The user of the processes that parse data from screens and browsers."""
KEEPER = DOOR - 4
"""The owner of files that only a keeper writes, in places where confined root processes may write, too."""
FETCHER = DOOR - 5
"""The user of the process that downloads images."""
VOLUMES = FIRST + WIDTH * (SLOTS - 1)
"""The first id of the processes that access volumes, in the last range, at whose end are the ids above."""
USER = 1000
LAST_USER = 1012
"""The last id that a desk has inside, except for the overflow user's: `useradd` gives the numbers from 1001."""
_FIRST_ADDED = 1004
"""The place in a desk's range of the id that is 1001 inside."""
CLAIMS = Path("/run/hotdesk-uids")
_SUB_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))
OWNER = "hotdesk"
_FIRST_PROCESSES = 0xEFFFFFFC
"""The inode of the initial pid namespace."""


def format_id_map(base: int) -> str:
    """Return the id map of a desk's user namespace: system ids, `user`, twelve more, the overflow user, no others."""
    added = f"{USER + 1} {base + _FIRST_ADDED} {LAST_USER - USER}"
    return f"0 {base} {USER + 1}\n{added}\n65534 {base + NOBODY} 1\n"


def find_overlap(lines: list[str]) -> str | None:
    for line in lines:
        name, start, count = [*line.split(":"), "", ""][:3]
        if name == OWNER or not start.isdigit() or not count.isdigit():
            continue
        if int(start) < FIRST + WIDTH * SLOTS and int(start) + int(count) > FIRST:
            return line
    return None


def reserve(files: tuple[Path, ...] = _SUB_FILES) -> bool:
    """Add hotdesk's range to /etc/subuid and /etc/subgid; return False if it was there."""
    changed = False
    for file in files:
        lines = file.read_text().splitlines() if file.exists() else []
        if clash := find_overlap(lines):
            raise HostError(
                f"the line {clash!r} of {file} overlaps hotdesk's ids from {FIRST} to "
                f"{FIRST + WIDTH * SLOTS - 1}; move that range"
            )
        entry = f"{OWNER}:{FIRST}:{WIDTH * SLOTS}"
        if entry not in lines:
            fresh = file.with_suffix(".hotdesk")
            fresh.write_text("\n".join([*lines, entry]) + "\n")
            fresh.chmod(0o644)
            fresh.replace(file)
            changed = True
    return changed


def unreserve(files: tuple[Path, ...] = _SUB_FILES) -> bool:
    """Remove hotdesk's range from /etc/subuid and /etc/subgid; return False if it was not there."""
    entry, changed = f"{OWNER}:{FIRST}:{WIDTH * SLOTS}", False
    for file in files:
        lines = file.read_text().splitlines() if file.exists() else []
        if entry in lines:
            fresh = file.with_suffix(".hotdesk")
            fresh.write_text("".join(f"{line}\n" for line in lines if line != entry))
            fresh.chmod(0o644)
            fresh.replace(file)
            changed = True
    return changed


def list_claims(claims: Path = CLAIMS) -> list[Path]:
    return [desk for _, desk in _iterate_claims(claims)]


def _iterate_claims(claims: Path) -> Iterator[tuple[int, Path]]:
    """Yield the number of each claimed slot, and its desk's folder. Other processes may release theirs meanwhile."""
    try:
        names = os.listdir(claims)
    except FileNotFoundError:
        return
    for name in filter(str.isdigit, names):
        try:
            desk = Path(os.readlink(claims / name))
        except FileNotFoundError:
            continue
        yield int(name), desk


def give_empty_folder(folder: Path, owner: int) -> None:
    """Give root's empty folder to another user: a new one, or one whose maker was killed before it gave it away."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == 0 and not os.listdir(fd):
            os.fchown(fd, owner, owner)
    finally:
        os.close(fd)


def is_reserved() -> bool:
    entry = f"{OWNER}:{FIRST}:{WIDTH * SLOTS}"
    return all(file.exists() and entry in file.read_text().splitlines() for file in _SUB_FILES)


def claim(desk_dir: Path, claims: Path = CLAIMS) -> int:
    """Claim a range for a desk; return its first host id. Slots rotate, so that a freed one is reused late."""
    with hold_lock(claims / "lock"):
        cursor = claims / "next"
        start = int(os.readlink(cursor)) if cursor.is_symlink() else choose_start(_is_nested())
        for step in range(SLOTS - 1):
            slot = (start + step) % (SLOTS - 1)
            try:
                os.symlink(desk_dir, claims / str(slot))  # creating a link is atomic
            except FileExistsError:
                continue
            cursor.unlink(missing_ok=True)
            os.symlink(str((slot + 1) % (SLOTS - 1)), cursor)
            return FIRST + slot * WIDTH
    raise HostError(
        f"all {SLOTS - 1} ranges of user ids (one for each desk) are in use; burn desks, or run `hotdesk gc`"
    )


def choose_start(is_nested: bool) -> int:
    """Return the slot to start at: random in a container, whose claims its host and other containers cannot see."""
    return int.from_bytes(os.urandom(4)) % (SLOTS - 1) if is_nested else 0


def _is_nested() -> bool:
    """Return whether this is not the initial pid namespace, as in a container."""
    return os.stat("/proc/self/ns/pid").st_ino != _FIRST_PROCESSES


def release(base: int, desk_dir: Path, claims: Path = CLAIMS) -> None:
    """Release a desk's range, if it is still that desk's. Call it only once no process and no file has its ids."""
    claim = claims / str((base - FIRST) // WIDTH)
    with hold_lock(claims / "lock"):
        if claim.is_symlink() and os.readlink(claim) == str(desk_dir):
            claim.unlink()


def sweep(desks: Path, claims: Path = CLAIMS) -> None:
    """Release the ranges of desks below `desks` that no longer exist."""
    for slot, desk in _iterate_claims(claims):
        if desk.parent == desks and not desk.exists():
            release(FIRST + slot * WIDTH, desk, claims)
