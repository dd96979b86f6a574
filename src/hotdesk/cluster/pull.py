"""Events of nodes, fetched to the server. Each chain is checked against the last fetch and its first key.

If a node changes, cuts or omits events it sent before, the next fetch detects it. Events it had not sent are lost with
the node: up to a second of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import DeskId
from hotdesk.drive.chain import Row
from hotdesk.drive.export import as_line, load_json, parse_row
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.journal_audit import Walk
from hotdesk.drive.signing import PUBLIC, compute_fingerprint
from hotdesk.errors import HostError, KeeperError
from hotdesk.linux import private_files

BATCH = 500
_KEYS = "keys"


def read_events(settings: Config, after: int) -> dict[str, object]:
    folder = settings.lib / _KEYS
    if not (folder / FILE).exists():
        return {"key": "", "events": []}
    rows = islice(read(folder / FILE, after=after), BATCH)
    return {"key": (folder / PUBLIC).read_text(), "events": [as_line(row) for row in rows]}


@dataclass(frozen=True, slots=True)
class SignedOpening:
    """The signed event of a desk's opening on this node, as hashed."""

    row: str
    key: str
    """The public key that signed it, in PEM."""


def read_opened(settings: Config, desk: DeskId) -> SignedOpening:
    """Return the journal's event of a desk's opening."""
    folder = settings.lib / _KEYS
    rows = list(islice(read(folder / FILE, desk), 1)) if (folder / FILE).exists() else []
    if not rows:
        raise HostError(f"the journal of this node has no record that desk {desk} was opened; open another desk")
    return SignedOpening(as_line(rows[0]), (folder / PUBLIC).read_text())


def _ignore_rows(rows: Sequence[Row]) -> None:
    """Do nothing."""


class PulledJournal:
    """A tenant's events from one node, in files of this server: one for each signing key."""

    def __init__(self, folder: Path) -> None:
        """Read from and write to a folder; its name is the node's."""
        self.folder = folder
        self.walk: Walk | None = None
        self.name = ""

    @property
    def after(self) -> int:
        return self.walk.last.id if self.walk is not None and self.walk.last is not None else 0

    def take(self, reply: dict[str, object], pass_on: Callable[[Sequence[Row]], None] = _ignore_rows) -> int:
        """Check events, pass them on and append them; return their number.

        Raise `KeeperError` if they do not follow the events already stored. Events that were passed on just before this
        process was killed are passed on again; none is left out.
        """
        pem, lines = reply.get("key"), reply.get("events")
        if not isinstance(pem, str) or not isinstance(lines, list) or len(lines) > BATCH:
            raise KeeperError(f"malformed journal reply from node {self.folder.name}")
        if not lines:
            return 0
        walk = self._find_walk(pem)
        rows: list[Row] = []
        for line in lines:
            row = parse_row(load_json(line)) if isinstance(line, str) else None
            if row is None:
                raise KeeperError(f"node {self.folder.name} sent a malformed journal event")
            walk.step(row)
            rows.append(row)
            if walk.faults:
                self.walk = None
                fault = walk.faults[0]
                raise KeeperError(
                    f"node {self.folder.name} sent journal events that do not follow those it sent before "
                    f"({fault.chain}: {fault.why}), so its new events are not stored here; run "
                    "`hotdesk journal verify` on the node to learn whether its journal was changed. To fetch it again "
                    f"from the beginning, move {self.folder / self.name} away"
                )
        try:
            pass_on(rows)
        except BaseException:
            self.walk = None  # read the file again at the next call
            raise
        self._append("".join(f"{line}\n" for line in lines).encode())
        return len(lines)

    def _find_walk(self, pem: str) -> Walk:
        key = _parse_key(pem, self.folder.name)
        name = f"{compute_fingerprint(key)}.jsonl"
        if self.walk is None or self.name != name:
            walk = Walk(key, {}, thorough=True)
            for line in self._read(name):
                if (row := parse_row(load_json(line))) is not None:
                    walk.step(row)
            if walk.faults:
                raise HostError(
                    f"the copy of a node's journal in {self.folder / name} is damaged: {walk.faults[0].why}; move the "
                    "file away, and the node's journal is copied again"
                )
            self.walk, self.name = walk, name
        return self.walk

    def _read(self, name: str) -> Iterator[str]:
        private_files.make_folder(self.folder)
        data = private_files.read(self.folder, name) or b""
        return iter(data.decode().splitlines())

    def _append(self, data: bytes) -> None:
        fd = os.open(self.folder / self.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)


def _parse_key(pem: str, node: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise KeeperError(f"node {node} sent no valid public key with its journal events")
    return key
