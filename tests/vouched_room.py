"""A node whose key the authority of its cluster vouches for, and what it sends about its desks and its own keys."""

from __future__ import annotations

import datetime
from contextlib import closing
from pathlib import Path

from hotdesk.cluster.certificates import AUTHORITY, Role, enroll
from hotdesk.cluster.vouching import load_voucher
from hotdesk.drive.export import as_line
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.signing import PUBLIC, Signer, load_signer
from hotdesk.event import Event, Opened
from hotdesk.keys.sealed_values import SealingKey
from hotdesk.linux import private_files

DESK, OTHER = "i" + "a" * 20, "i" + "b" * 20
OPENED = Opened(DESK, "", (), (), "key test", "base", "gvisor", "sentry", True, "runsc 1", "systrap")
WITH_DOOR = Opened(DESK, "ab" * 32, ("GET https://erp.test/*",), (), "", "base", "gvisor", "sentry", True)
Told = dict[str, object]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Room:
    """A node's folder, and an authority's."""

    def __init__(self, folder: Path, role: Role = "node") -> None:
        self.folder = folder
        enroll(folder / "authority", role, "n1", folder / "identity", 1)
        self.authority = (folder / "identity" / AUTHORITY).read_text()

    def tell(self, event: Event = OPENED, actor: str = "keeper", chain: str = DESK, before: int = 0) -> Told:
        """Return what this node reports about a desk whose opening is recorded."""
        keys = self.folder / f"keys-{actor}-{chain}-{before}-{type(event).__name__}"
        private_files.make_folder(keys)
        with closing(Journal(keys / FILE, load_signer(keys))) as journal:
            for _ in range(before):
                journal.add(chain, actor, event)
                journal.commit()
            journal.add(chain, actor, event)
            journal.commit()
        row = list(read(keys / FILE))[-1]
        vouching = load_voucher(self.folder / "identity")((keys / PUBLIC).read_text())
        return {"row": as_line(row), "key": vouching.key, "certificate": vouching.certificate,
                "signature": vouching.signature}  # fmt: skip

    def vouched_by_server(self, told: Told, folder: Path) -> Told:
        """Return the report as a server of the same authority would vouch for it."""
        enroll(self.folder / "authority", "server", "n1", folder / "identity", 1)
        vouching = load_voucher(folder / "identity")(str(told["key"]))
        return {**told, "certificate": vouching.certificate, "signature": vouching.signature}


Statement = dict[str, object]


class Node:
    """A node's keys process, and the authority that vouches for it."""

    def __init__(self, folder: Path, role: Role = "node") -> None:
        folder.mkdir()
        self.folder = folder
        enroll(folder / "authority", role, "n1", folder / "identity", 1)
        self.authority = (folder / "identity" / AUTHORITY).read_text()
        private_files.make_folder(folder / "keys")
        self.signer: Signer = load_signer(folder / "keys")
        self.sealing = SealingKey()

    def state(self) -> Statement:
        """Say who this is."""
        vouching = load_voucher(self.folder / "identity")((self.folder / "keys" / PUBLIC).read_text())
        named = {"key": vouching.key, "certificate": vouching.certificate, "signature": vouching.signature}
        return {**named, **self.sealing.sign(self.signer)}

    def state_as_server(self, folder: Path) -> Statement:
        """Say who this is as a server of the same authority would vouch for it."""
        enroll(self.folder / "authority", "server", "n1", folder, 1)
        stated = self.state()
        vouching = load_voucher(folder)(str(stated["key"]))
        return {**stated, "certificate": vouching.certificate, "signature": vouching.signature}
