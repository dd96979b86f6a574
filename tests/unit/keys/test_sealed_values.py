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


FORGED: dict[str, Callable[[Node, Path], Statement]] = {
    "a node of another authority": lambda node, other: Node(other).state(),
    "a server": lambda node, other: {**Node(other, "server").state()},
    "a key that the node's keys did not sign": lambda node, _: {
        **node.state(),
        "sealing": base64.b64encode(SealingKey().public).decode(),
    },
    "a key that others signed": lambda node, other: {
        **node.state(),
        **{name: value for name, value in Node(other).state().items() if name in ("sealing", "signed")},
    },
    "no key": lambda node, _: {**node.state(), "sealing": ""},
    "nothing": lambda node, _: {},
}


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
        with pytest.raises(BriefError):
            node.sealing.open(bytes(changed))
    with pytest.raises(BriefError):
        node.sealing.open(b"short")


@pytest.mark.parametrize("how", FORGED)
def test_secrets_are_not_sealed_for_an_unknown_node(tmp_path: Path, how: str) -> None:
    node = Node(tmp_path / "node")
    with pytest.raises(BriefError):
        seal_values(VALUES, FORGED[how](node, tmp_path / "other"), node.authority)
    with pytest.raises(BriefError):
        seal_values(VALUES, node.state(), "")
