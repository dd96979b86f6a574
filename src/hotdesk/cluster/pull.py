"""Events of nodes, fetched to the server. Each chain is checked against the last fetch and its first key.

If a node changes, cuts or omits events it sent before, the next fetch detects it. Events it had not sent are lost with
the node: up to a second of them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import anyio
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.outbox import FILE as OUTBOX
from hotdesk.desk.seam import DeskId
from hotdesk.drive.chain import Row
from hotdesk.drive.export import LARGEST, as_line, load_json, parse_row
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.journal_audit import Walk
from hotdesk.drive.signing import PUBLIC, compute_fingerprint
from hotdesk.errors import HostError, KeeperError
from hotdesk.event import as_dict, from_json
from hotdesk.linux import private_files

BATCH = 500
MAX_KEYS = 100
"""Maximum number of files of one node: one for each signing key, and each agent of pods that is started has a new one.

At the limit the oldest file is moved to the folder `earlier`.
"""
MIN_KEY_AGE_S = 86400.0
"""Seconds without a new event after which a file may be moved there, so a node cannot fill the disk with keys."""
EARLIER = "earlier"
_KEYS = "keys"
_ENDING = ".jsonl"
_RECORD_SECONDS = 5.0
_RETRY_S = 0.1


def read_events(settings: Config, after: int) -> dict[str, object]:
    folder = settings.lib / _KEYS
    if not (folder / FILE).exists():
        return {"key": "", "events": []}
    rows = islice(read(folder / FILE, after=after), BATCH)
    return {"key": (folder / PUBLIC).read_text(), "events": [as_line(row) for row in rows]}


def has_number(settings: Config, number: int) -> bool:
    """Return whether a tenant's journal has reached a number."""
    newest = next(read(settings.lib / _KEYS / FILE, limit=1), None)
    return newest is not None and newest.id >= number


def compute_key_fingerprint(pem: str) -> str:
    """Return the fingerprint of a key that signs a journal, which names its file at the server; empty for no key."""
    return compute_fingerprint(_parse_key(pem, "here")) if pem else ""


def has_work(settings: Config) -> bool:
    """Return whether a tenant must be started: it has desks, or events that its keys have not signed yet."""
    outbox = settings.lib / _KEYS / OUTBOX
    return any((settings.run / "desks").glob("*")) or (outbox.exists() and outbox.stat().st_size > 0)


@dataclass(frozen=True, slots=True)
class SignedOpening:
    """The signed event of a desk's opening on this node, as hashed."""

    row: str
    key: str
    """The public key that signed it, in PEM."""


def _read_opened(settings: Config, desk: DeskId) -> SignedOpening:
    """Return the journal's event of a desk's opening."""
    folder = settings.lib / _KEYS
    rows = list(islice(read(folder / FILE, desk), 1)) if (folder / FILE).exists() else []
    if not rows:
        raise HostError(f"the journal of this node has no record that desk {desk} was opened; open another desk")
    return SignedOpening(as_line(rows[0]), (folder / PUBLIC).read_text())


async def wait_opened(settings: Config, desk: DeskId, prepare: Callable[[], Awaitable[None]]) -> SignedOpening:
    """Return the journal's event of a desk's opening, which its keeper may write a moment later."""
    end = anyio.current_time() + _RECORD_SECONDS
    while True:
        await prepare()  # by then the events of the outbox are in the journal
        try:
            return await anyio.to_thread.run_sync(_read_opened, settings, desk)
        except HostError:
            if anyio.current_time() >= end:
                raise
        await anyio.sleep(_RETRY_S)


def _ignore_rows(rows: Sequence[Row]) -> None:
    """Do nothing."""


class PulledJournal:
    """A tenant's events from one node, in files of this server: one for each signing key."""

    def __init__(self, folder: Path) -> None:
        """Read from and write to a folder; its name is the node's."""
        self.folder = folder
        self.walks: dict[str, Walk] = {}
        """What the next events must follow, by file; so no reply of the node leads to a file being read twice."""
        self.name = ""

    def read_last_number(self) -> int:
        """Return the number of the last stored event; before the first reply, that of the file written last."""
        self._forget_moved()
        if (walk := self.walks.get(self.name)) is not None:
            return walk.last.id if walk.last is not None else 0
        return _read_last_number(self.folder)

    def get_key(self) -> str:
        """Return the fingerprint of the key that signed the stored events, as the node's replies show; else nothing."""
        return self.name.removesuffix(_ENDING) if self.name in self.walks else ""

    def take(self, reply: dict[str, object], pass_on: Callable[[Sequence[Row]], None] = _ignore_rows) -> int:
        """Check events, pass them on and append them; return their number.

        Raise `KeeperError` if they do not follow the events already stored. If the node has another key than before,
        take nothing: `read_last_number` then returns the number to ask for. Events that were passed on just before this
        process was killed are passed on again; none is left out.
        """
        pem, lines = reply.get("key"), reply.get("events")
        if not isinstance(pem, str) or not isinstance(lines, list) or len(lines) > BATCH:
            raise KeeperError(f"malformed journal reply from node {self.folder.name}")
        if not pem and not lines:
            return 0
        expected = self.read_last_number()
        walk = self._find_walk(pem)
        if self.read_last_number() != expected:
            return 0
        rows = [_parse_line(line, self.folder.name) for line in lines]
        if not rows:
            return 0  # an idle node writes nothing here, and a key without events gets no file
        trial = self._check(walk, rows)
        pass_on(rows)
        try:
            self._append("".join(f"{as_line(row)}\n" for row in rows).encode())
        except BaseException:
            self.walks.pop(self.name, None)  # read the file again at the next call
            raise
        walk.last = trial.last
        walk.ends |= trial.ends
        return len(rows)

    def _check(self, walk: Walk, rows: Sequence[Row]) -> Walk:
        """Return what follows on a walk; raise `KeeperError`, and leave the walk valid, if the events do not follow."""
        before = {row.chain: walk.ends[row.chain] for row in rows if row.chain in walk.ends}
        trial = Walk(walk.key, {}, last=walk.last, ends=before, thorough=True)
        for row in rows:
            trial.step(row)
            if trial.faults:
                fault = trial.faults[0]
                raise KeeperError(
                    f"node {self.folder.name} sent journal events that do not follow those it sent before "
                    f"({fault.chain}: {fault.why}), so its new events are not stored here; run "
                    "`hotdesk journal verify` on the node to learn whether its journal was changed. To fetch it again "
                    f"from the beginning, move {self.folder / self.name} away"
                )
        return trial

    def _find_walk(self, pem: str) -> Walk:
        key = _parse_key(pem, self.folder.name)
        name = f"{compute_fingerprint(key)}{_ENDING}"
        if name not in self.walks:
            self._make_room(name)
            walk = Walk(key, {}, thorough=True)
            for line in self._read(name):
                if (row := parse_row(load_json(line))) is not None:
                    walk.step(row)
            if walk.faults:
                raise HostError(
                    f"the copy of a node's journal in {self.folder / name} is damaged: {walk.faults[0].why}; move the "
                    "file away, and the node's journal is copied again"
                )
            self.walks[name] = walk
        self.name = name
        return self.walks[name]

    def _forget_moved(self) -> None:
        """Forget files that the operator moved away, and keys without events."""
        self.walks = {
            name: walk
            for name, walk in self.walks.items()
            if (self.folder / name).exists() or (walk.last is None and name == self.name)
        }

    def _make_room(self, name: str) -> None:
        """Move the oldest file away if this is the file of one key too many; raise `KeeperError` if it is too young.

        The file of a key that is used again is moved back.
        """
        names = {path.name: path.stat().st_mtime for path in self.folder.glob(f"*{_ENDING}")}
        if name in names:
            return
        if len(names) >= MAX_KEYS:
            oldest = min(names.keys() - {self.name}, key=names.__getitem__)
            if time.time() - names[oldest] < MIN_KEY_AGE_S:
                raise KeeperError(
                    f"node {self.folder.name} has signed its journal with {MAX_KEYS} different keys within a day, the "
                    f"limit, so its new events are not stored here; move the files of its earlier keys out of "
                    f"{self.folder}"
                )
            private_files.make_folder(self.folder / EARLIER)
            os.replace(self.folder / oldest, self.folder / EARLIER / oldest)
            self.walks.pop(oldest, None)
        with suppress(FileNotFoundError):
            os.replace(self.folder / EARLIER / name, self.folder / name)

    def _read(self, name: str) -> Iterator[str]:
        """Yield the lines of a file; remove a last line that was not written completely."""
        private_files.make_folder(self.folder)
        with private_files.enter_folder(self.folder) as place:
            try:
                fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            except FileNotFoundError:
                return
        end = 0
        with open(fd, "rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(end)
                    return
                end += len(line)
                yield line.decode()

    def _append(self, data: bytes) -> None:
        fd = os.open(self.folder / self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)


def _read_last_number(folder: Path) -> int:
    """Return the number of the last complete event in the file that was written last, 0 if there is none."""
    files = sorted(folder.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        return 0
    with files[-1].open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 2 * LARGEST))
        lines = file.read().split(b"\n")
    row = parse_row(load_json(lines[-2].decode(errors="replace"))) if len(lines) > 1 else None
    return row.id if row is not None else 0


@dataclass(frozen=True, slots=True)
class PulledEvents:
    """Events of a node as far as this version knows them. The fetched journal has them whole, as they were signed."""

    events: tuple[dict[str, object], ...]
    newer: frozenset[str]
    """Names of events that newer code wrote: unknown ones, which are left out, and those with unknown fields."""


def parse_pulled(rows: Sequence[Row]) -> PulledEvents:
    """Parse events whose chain was checked; a node may run newer code than its server."""
    events, newer = [], set()
    for row in rows:
        try:
            event = from_json(row.name, row.data, row.version, ignore_unknown=True)
        except ValueError:
            newer.add(row.name)
            continue
        fields = as_dict(event)
        events.append({"at": row.at, "event": row.name, "data": fields})
        if not json.loads(row.data).keys() <= fields.keys():
            newer.add(row.name)
    return PulledEvents(tuple(events), frozenset(newer))


def _parse_line(line: object, node: str) -> Row:
    row = parse_row(load_json(line)) if isinstance(line, str) else None
    if row is None:
        raise KeeperError(f"node {node} sent a malformed journal event, so its new events are not stored here")
    return row


def _parse_key(pem: str, node: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeeperError(f"node {node} sent no valid public key with its journal events")
    return key
