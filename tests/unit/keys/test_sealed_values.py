"""Tests of sealing secrets for a node's keys: only nodes the authority vouches for get them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from hotdesk.cluster.certificates import AUTHORITY, Role, enroll
from hotdesk.cluster.vouching import load_voucher
from hotdesk.drive.signing import PUBLIC, Signer, load_signer
from hotdesk.errors import BriefError
from hotdesk.keys.sealed_values import SealingKey, seal_values
from hotdesk.linux import private_files

VALUES = {"erp-token": b"hunter2", "other": bytes(range(256))}
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


NOT_CERTIFIED = "is not certified for a node of this cluster: "
NOT_SIGNED = "was not signed by the node's keys process"
FORGED: dict[str, tuple[Callable[[Node, Path], Statement], str]] = {
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


def test_only_the_keys_they_were_sealed_for_open_secrets(tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    sealed = seal_values(VALUES, node.state(), node.authority)
    assert b"hunter2" not in sealed
    assert node.sealing.open(sealed) == VALUES
    with pytest.raises(BriefError, match="or for another node"):
        SealingKey().open(sealed)
    for place in (0, 40, len(sealed) - 1):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(BriefError, match="cannot be decrypted"):
            node.sealing.open(bytes(changed))
    with pytest.raises(BriefError, match="cannot be decrypted"):
        node.sealing.open(b"short")


@pytest.mark.parametrize("how", FORGED)
def test_secrets_are_not_sealed_for_an_unknown_node(tmp_path: Path, how: str) -> None:
    node = Node(tmp_path / "node")
    forge, why = FORGED[how]
    with pytest.raises(BriefError, match=why):
        seal_values(VALUES, forge(node, tmp_path / "other"), node.authority)
    with pytest.raises(BriefError, match="no certificate of a cluster's authority"):
        seal_values(VALUES, node.state(), "")
