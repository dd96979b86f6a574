"""Tests of sealing secrets for a node's keys; keys no node has are in tests/security/test_vouching_attacks.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.vouched_room import Node

from hotdesk.errors import BriefError
from hotdesk.keys.sealed_values import SealingKey, seal_values

VALUES = {"erp-token": b"hunter2", "other": bytes(range(256))}


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


def test_without_an_authority_no_secrets_are_sealed(tmp_path: Path) -> None:
    node = Node(tmp_path / "node")
    with pytest.raises(BriefError, match="no certificate of a cluster's authority"):
        seal_values(VALUES, node.state(), "")
