"""The items of a swarm: files beside its brief, rows of a table, or lines of a text. Read as bytes, never opened."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import TypeAlias

from hotdesk.brief.brief import DRIVE, MEMORY, Brief, Each
from hotdesk.dataclass import dataclass
from hotdesk.drive.catalog import Version
from hotdesk.errors import BriefError, make_printable

MAX_ITEMS = 50_000
"""Maximum number of items: each writes one event, and the swarm's share of the journal has room for this many."""
MAX_ITEM_BYTES = 64 << 20
MAX_TABLE_BYTES = 256 << 20
"""Maximum bytes of a table or text whose rows or lines are the items."""
_MAX_KEY_CHARS = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
TableRow: TypeAlias = Mapping[str, str]
"""A row of a table: cells by column heading."""
STEM = "item"
"""The name of an item's file at its desk, without the suffix; the same for every item."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item. Its key has only letters, digits, `.`, `_` and `-`, so that it fits in a path or an egress rule."""

    index: int
    key: str
    sha256: str
    name: str
    """The name of its file at its desk, such as `item.pdf`."""
    path: Path | None = None
    """The path of its file on the host. `None`: the content is in `data`."""
    data: bytes = b""
    place: str = ""
    """Where a person finds the item. Empty: it is a row or line of the file that `each.over` names."""

    def read(self) -> bytes:
        """Return the item's content; raise `BriefError` if it changed since the items were listed."""
        data = self.data if self.path is None else _read_file(self.path, MAX_ITEM_BYTES)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise BriefError(f"item {self.key} was changed since the swarm started; start another swarm for it")
        return data


def is_workbook(each: Each) -> bool:
    """Return whether the items are the rows of a workbook, which is opened in a desk and nowhere else."""
    return PurePosixPath(each.over).suffix.lower() == ".xlsx" and not _is_pattern(each.over)


def _is_pattern(over: str) -> bool:
    return "*" in over or "?" in over


def list_items(brief: Brief, workbook: Sequence[TableRow] | None = None) -> tuple[Item, ...]:
    """List a brief's items in order, with the hash of each. `workbook` has the rows if the items are in a workbook."""
    assert brief.each is not None
    each, suffix = brief.each, PurePosixPath(brief.each.over).suffix.lower()
    if workbook is not None:
        items = tuple(_list_rows(workbook, each))
    elif _is_pattern(each.over) or suffix not in (".csv", ".txt"):
        if each.batch > 1 or each.key:
            raise BriefError(
                "in [each], `batch` and `key` are for rows and lines of a file, but here each file is an item; "
                "remove them"
            )
        items = tuple(_list_files(brief.folder, each.over))
    else:
        data = read_table(brief, MAX_TABLE_BYTES)
        items = tuple(_list_rows(_parse_csv(data, each), each) if suffix == ".csv" else _list_lines(data, each))
    if not items and (_is_pattern(each.over) or suffix not in (".csv", ".txt", ".xlsx")):
        raise BriefError(
            f"no items found: no file next to the brief matches {make_printable(each.over)!r}, which `over` in "
            "[each] names"
        )
    if not items:
        what = "lines" if suffix == ".txt" else "rows"
        raise BriefError(f"no items found: {make_printable(each.over)!r}, which `over` in [each] names, has no {what}")
    return items


def list_kept_items(files: Sequence[Version], pattern: str) -> tuple[Item, ...]:
    """List the drive's files that match `drive:PATTERN`, by name, each in its current version."""
    pattern = pattern.removeprefix(DRIVE)
    if not _is_pattern(pattern) and PurePosixPath(pattern).suffix.lower() in (".csv", ".txt", ".xlsx"):
        raise BriefError(
            "rows and lines of a drive file cannot be items; copy the file next to the brief with `hotdesk drive get`"
        )
    depth = len(PurePosixPath(pattern).parts)
    found = [each for each in files if PurePosixPath(each.name).match(pattern) and each.name.count("/") == depth - 1]
    found = sorted((each for each in found if each.name.partition("/")[0] != MEMORY), key=lambda each: each.name)
    _require_few(len(found))
    if not found:
        raise BriefError(
            f"no items found: no file of the drive matches {make_printable(pattern)!r}, which `over` in [each] names"
        )
    items, keys = [], _Keys()
    repeated = _list_repeated(_shorten(PurePosixPath(each.name).stem) for each in found)
    for index, each in enumerate(found):
        if each.size > MAX_ITEM_BYTES:
            raise BriefError(
                f"{make_printable(each.name)!r} has more than {MAX_ITEM_BYTES >> 20} MiB, the limit of an item"
            )
        path = PurePosixPath(each.name)
        name = _shorten(path.stem)
        key = keys.choose(_shorten(each.name) if name in repeated else name, index)
        place = f"{DRIVE}{each.name}@{each.number}"
        items.append(Item(index, key, each.sha256, STEM + _get_suffix(path), each.path, place=place))
    return tuple(items)


def read_table(brief: Brief, most: int) -> bytes:
    assert brief.each is not None
    return _read_file(_require_inside(brief.folder, brief.folder / brief.each.over), most)


def format_manifest(items: Sequence[Item]) -> bytes:
    """Format the list of items. Its hash is what a person approves."""
    return "".join(f"{json.dumps([each.key, each.sha256, each.name])}\n" for each in items).encode()


def read_manifest(data: bytes) -> list[tuple[str, str, str]]:
    """Parse a list of items into key, SHA-256 and file name of each."""
    return [(str(key), str(sha256), str(name)) for key, sha256, name in map(json.loads, data.splitlines())]


def add_items(before: Sequence[tuple[str, str, str]], found: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items in the swarm's recorded order, followed by new ones.

    Raise `BriefError` if a recorded item is missing or was changed.
    """
    by_key = {each.key: each for each in found}
    for key, sha256, name in before:
        if key not in by_key or (by_key[key].sha256, by_key[key].name) != (sha256, name):
            what = "was changed" if key in by_key else "is missing"
            raise BriefError(f"item {key} of the swarm {what}; restore its file or row, or start another swarm")
    old = [by_key.pop(key) for key, _, _ in before]
    return tuple(replace(each, index=index) for index, each in enumerate([*old, *by_key.values()]))


def _list_files(folder: Path, pattern: str) -> Iterator[Item]:
    """List the matching files in order of their paths, with the hash of each."""
    paths = sorted(path for path in folder.glob(pattern) if path.is_file())
    _require_few(len(paths))
    names = [_shorten(path.stem) for path in paths]
    repeated = _list_repeated(names)
    keys = _Keys()
    for index, (path, name) in enumerate(zip(paths, names, strict=True)):
        data = _read_file(_require_inside(folder, path), MAX_ITEM_BYTES)
        proposal = _shorten(str(path.relative_to(folder))) if name in repeated else name
        key, name = keys.choose(proposal, index), STEM + _get_suffix(path)
        yield Item(index, key, hashlib.sha256(data).hexdigest(), name, path, place=str(path))


def _list_repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _get_suffix(path: PurePath) -> str:
    """Return the suffix of a file's name, or an empty string if it is not allowed in an item's file name."""
    return path.suffix.lower() if _UNSAFE.sub("", path.suffix) == path.suffix else ""


def _parse_csv(data: bytes, each: Each) -> list[TableRow]:
    try:
        rows: list[TableRow] = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as e:
        raise BriefError(f"{make_printable(each.over)} is not a CSV file in UTF-8: {e}") from None
    for number, row in enumerate(rows, 1):
        if None in row or None in row.values():
            what = "more" if None in row else "fewer"
            raise BriefError(
                f"row {number} below the headings of {make_printable(each.over)} has {what} cells than there are "
                "headings; correct it"
            )
    return rows


def _list_rows(rows: Sequence[TableRow], each: Each) -> Iterator[Item]:
    """List the rows of a table: one JSON object per item, or a list of objects if several rows make one item."""
    _require_few(len(rows))
    if each.key and rows and each.key not in rows[0]:
        raise BriefError(
            f"{make_printable(each.over)} has no column {make_printable(each.key)!r}; set `key` in [each] to one of "
            f"{make_printable(', '.join(map(str, rows[0])))[:300]}"
        )
    keys = _Keys()
    for index, start in enumerate(range(0, len(rows), each.batch)):
        part = rows[start : start + each.batch]
        text = json.dumps(part[0] if each.batch == 1 else part, ensure_ascii=False).encode()
        name = _shorten(part[0][each.key]) if each.key else f"row-{start + 1:06}"
        yield Item(index, keys.choose(name, index), hashlib.sha256(text).hexdigest(), f"{STEM}.json", None, text)


def _list_lines(data: bytes, each: Each) -> Iterator[Item]:
    lines = [line for line in data.splitlines() if line.strip()]
    _require_few(len(lines))
    for index, start in enumerate(range(0, len(lines), each.batch)):
        text = b"\n".join(lines[start : start + each.batch]) + b"\n"
        yield Item(index, f"line-{start + 1:06}", hashlib.sha256(text).hexdigest(), f"{STEM}.txt", None, text)


class _Keys:
    """Chooses unique item keys, also for file systems that ignore case."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def choose(self, proposal: str, index: int) -> str:
        name = proposal if proposal.lower() not in self.used else f"{proposal}-{index:06}"
        if name.lower() in self.used:
            name = f"item-{index:06}"
        self.used.add(name.lower())
        return name


def _shorten(text: str) -> str:
    """Derive an item's key from a file name or a cell: replace forbidden characters by `_`, and shorten it."""
    return _UNSAFE.sub("_", text).strip("._-")[:_MAX_KEY_CHARS] or STEM


def _require_few(count: int) -> None:
    if count > MAX_ITEMS:
        raise BriefError(
            f"there are {count:,} items, but a swarm can have {MAX_ITEMS:,} at most; split them into several briefs"
        )


def _require_inside(folder: Path, path: Path) -> Path:
    """Raise `BriefError` for a link that points outside the brief's folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BriefError(
            f"{make_printable(path.name)!r} is a link to a file outside the brief's folder; copy the file next to the "
            "brief"
        )
    return path


def _read_file(path: Path, most: int) -> bytes:
    try:
        with open(os.open(path, _OPEN), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BriefError(
                    f"{make_printable(path.name)!r} is not a regular file; replace it with one, or move it away"
                )
            if status.st_size > most:
                raise BriefError(f"{make_printable(path.name)!r} has more than {most >> 20} MiB, which is the limit")
            return file.read(most)
    except OSError as e:
        raise BriefError(f"{make_printable(str(path))} cannot be read: {e.strerror}") from e
