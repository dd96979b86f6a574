"""Tests of a node's signed proof of a wall: the chain of authority, node, key and event must be complete."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.cluster.certificates import AUTHORITY, enroll
from hotdesk.cluster.vouching import load_voucher
from hotdesk.drive.export import as_line
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.signing import PUBLIC, load_signer
from hotdesk.errors import BriefError
from hotdesk.event import Event, Opened
from hotdesk.keys.node_proof import check_proof
from hotdesk.linux import private_files

DESK, OTHER = "i" + "a" * 20, "i" + "b" * 20
OPENED = Opened(DESK, "", (), (), "key test", "base", "gvisor", "sentry", True, "runsc 1", "systrap")
WITH_DOOR = Opened(DESK, "ab" * 32, ("GET https://erp.test/*",), (), "", "base", "gvisor", "sentry", True)
Told = dict[str, object]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Room:
    """A node's folder, and an authority's."""

    def __init__(self, folder: Path, role: str = "node") -> None:
        self.folder = folder
        enroll(folder / "authority", role, "n1", folder / "identity", 1)  # type: ignore[arg-type]
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


def changed(told: Told, **fields: object) -> Told:
    """Return the report with other fields in its event."""
    row = json.loads(str(told["row"]))
    return {**told, "row": json.dumps({**row, **fields})}


NOT_ITS_KEEPER = "does not show that the node's keeper opened this desk"
NOT_WHOLE = "the signature of its node's record is not valid"
NOT_CERTIFIED = "is not certified for a node of this cluster: "
FORGED: dict[str, tuple[Callable[[Room, Path], Told], str]] = {
    "another desk's": (lambda room, _: room.tell(replace(OPENED, desk=OTHER), chain=OTHER), NOT_ITS_KEEPER),
    "another desk's, in this desk's chain": (lambda room, _: room.tell(replace(OPENED, desk=OTHER)), "network access"),
    "of a desk with a door": (lambda room, _: room.tell(WITH_DOOR), "network access"),
    "told by an owner": (lambda room, _: room.tell(actor="owner"), NOT_ITS_KEEPER),
    "not the first of its chain": (lambda room, _: room.tell(before=1), NOT_WHOLE),
    "without a wall": (lambda room, _: room.tell(Opened(DESK, "", (), ())), NOT_ITS_KEEPER),
    "data changed": (lambda room, _: changed(
        room.tell(), data=str(json.loads(str(room.tell()["row"]))["data"]).replace("gvisor", "microvm")
    ), NOT_WHOLE),
    "signature gone": (lambda room, _: {
        **room.tell(),
        "row": json.dumps({k: v for k, v in json.loads(str(room.tell()["row"])).items() if k != "signature"}),
    }, NOT_WHOLE),
    "another key": (
        lambda room, _: {**room.tell(), "key": room.tell(actor="keys")["key"]},
        NOT_CERTIFIED + "a signature is not valid",
    ),
    "a node of another authority": (
        lambda room, other: Room(other).tell(), NOT_CERTIFIED + "a signature is not valid",
    ),
    "vouched for by a server": (
        lambda room, other: room.vouched_by_server(room.tell(), other), NOT_CERTIFIED + ".* does not belong to a node",
    ),
    "no certificate": (lambda room, _: {**room.tell(), "certificate": ""}, NOT_CERTIFIED),
    "no signature of the node": (lambda room, _: {**room.tell(), "signature": ""}, NOT_CERTIFIED),
    "nothing": (lambda room, _: {}, "`row` is missing"),
}  # fmt: skip


def test_a_keeper_behind_a_node_of_the_authority_is_believed(tmp_path: Path) -> None:
    room = Room(tmp_path)
    proof = check_proof(room.tell(), DESK, room.authority, now())
    assert (proof.wall, proof.kernel, proof.is_boundary, proof.version) == ("gvisor", "sentry", True, "runsc 1")


@pytest.mark.parametrize("how", FORGED)
def test_an_incomplete_chain_proves_no_wall(tmp_path: Path, how: str) -> None:
    for name in ("room", "other"):
        (tmp_path / name).mkdir()
    room = Room(tmp_path / "room")
    forge, why = FORGED[how]
    with pytest.raises(BriefError, match=why):
        check_proof(forge(room, tmp_path / "other"), DESK, room.authority, now())


def test_an_expired_certificate_and_keys_without_an_authority_prove_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path)
    with pytest.raises(BriefError, match="certificate expired on"):
        check_proof(room.tell(), DESK, room.authority, now() + datetime.timedelta(days=2))
    with pytest.raises(BriefError, match="cannot be verified"):
        check_proof(room.tell(), DESK, "", now())
