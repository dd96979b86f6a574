"""Attacks by a node of a cluster, or a server that poses as one: on the proof of a wall, and on secrets for a node."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.errors import BriefError
from hotdesk.event import Opened
from hotdesk.keys.node_proof import check_proof
from hotdesk.keys.sealed_values import SealingKey, seal_values
from tests.security.guards import Removal, falls_without, no_guard
from tests.vouched_room import DESK, OPENED, OTHER, WITH_DOOR, Node, Room, Statement, Told, now

VALUES = {"erp-token": b"hunter2"}


def changed(told: Told, **fields: object) -> Told:
    """Return the report with other fields in its event."""
    row = json.loads(str(told["row"]))
    return {**told, "row": json.dumps({**row, **fields})}


NOT_ITS_KEEPER = "does not show that the node's keeper opened this desk"
NOT_WHOLE = "the signature of its node's record is not valid"
NOT_CERTIFIED = "is not certified for a node of this cluster: "
PROOFS: dict[str, tuple[Callable[[Room, Path], Told], str]] = {
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


@falls_without(
    "a node's proof is of this desk",
    Removal("keys/node_proof.py", "if event.chain != desk or event.actor", "if event.actor"),
    Removal("keys/node_proof.py", "if opened.desk != desk or opened.scope", "if opened.scope"),
    cases="another desk's | another desk's, in this desk's chain",
)
@falls_without(
    "a node's proof is of a desk without a door",
    Removal("keys/node_proof.py", " or opened.scope or opened.rules or opened.grants:", ":"),
    cases="of a desk with a door",
)
@falls_without(
    "a node's proof is its keeper's",
    Removal("keys/node_proof.py", " or event.actor != KEEPER or", " or"),
    cases="told by an owner",
)
@falls_without(
    "a node's proof names a wall",
    Removal("keys/node_proof.py", " or not isinstance(opened, Opened) or proof is None:", " or opened is None:"),
    cases="without a wall",
)
@falls_without(
    "a node's proof is whole",
    Removal("keys/node_proof.py", " or not _is_whole(event, public):", ":"),
    cases="not the first of its chain | data changed | signature gone",
)
@falls_without(
    "a node signs its key",
    Removal("keys/node_proof.py", "    public.verify(base64", "    (lambda *parts: None)(base64"),
    cases="another key | no signature of the node",
)
@falls_without(
    "a node is of the authority",
    Removal("keys/node_proof.py", "        node.verify_directly_issued_by(issuer)\n", ""),
    cases="a node of another authority",
)
@falls_without(
    "a server vouches for no key",
    Removal("keys/node_proof.py", "    if list(usage) != [ExtendedKeyUsageOID.SERVER_AUTH]:\n", "    if not usage:\n"),
    cases="vouched for by a server",
)
@no_guard("there is nothing that could be believed", cases="no certificate | nothing")
@pytest.mark.parametrize("how", PROOFS)
def test_an_incomplete_chain_proves_no_wall(tmp_path: Path, how: str) -> None:
    for name in ("room", "other"):
        (tmp_path / name).mkdir()
    room = Room(tmp_path / "room")
    forge, why = PROOFS[how]
    with pytest.raises(BriefError, match=why):
        check_proof(forge(room, tmp_path / "other"), DESK, room.authority, now())


NOT_SIGNED = "was not signed by the node's keys process"
KEYS: dict[str, tuple[Callable[[Node, Path], Statement], str]] = {
    "a node of another authority": (
        lambda node, other: Node(other).state(), NOT_CERTIFIED + "a signature is not valid",
    ),
    "a server": (
        lambda node, other: node.state_as_server(other), NOT_CERTIFIED + ".* does not belong to a node",
    ),
    "a key that the node's keys did not sign": (lambda node, _: {
        **node.state(),
        "sealing": base64.b64encode(SealingKey().public).decode(),
    }, NOT_SIGNED),
    "a key that others signed": (lambda node, other: {
        **node.state(),
        **{name: value for name, value in Node(other).state().items() if name in ("sealing", "signed")},
    }, NOT_SIGNED),
    "no key": (lambda node, _: {**node.state(), "sealing": ""}, NOT_CERTIFIED),
    "nothing": (lambda node, _: {}, "it has no key"),
}  # fmt: skip


@falls_without("a node is of the authority", cases="a node of another authority")
@falls_without("a server vouches for no key", cases="a server")
@falls_without(
    "a node's keys sign their sealing key",
    Removal("keys/sealed_values.py", "    if not is_own:\n", "    if not theirs:\n"),
    cases="a key that the node's keys did not sign | a key that others signed",
)
@no_guard("there is nothing to seal for", cases="no key | nothing")
@pytest.mark.parametrize("how", KEYS)
def test_secrets_are_not_sealed_for_an_unknown_node(tmp_path: Path, how: str) -> None:
    node = Node(tmp_path / "node")
    forge, why = KEYS[how]
    with pytest.raises(BriefError, match=why):
        seal_values(VALUES, forge(node, tmp_path / "other"), node.authority)
