"""Tests of a node's signed proof of a wall; forged ones are in tests/security/test_vouching_attacks.py."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from tests.vouched_room import DESK, Room, now

from hotdesk.errors import BriefError
from hotdesk.keys.node_proof import check_proof


def test_a_keeper_behind_a_node_of_the_authority_is_believed(tmp_path: Path) -> None:
    room = Room(tmp_path)
    proof = check_proof(room.tell(), DESK, room.authority, now())
    assert (proof.wall, proof.kernel, proof.is_boundary, proof.version) == ("gvisor", "sentry", True, "runsc 1")


def test_an_expired_certificate_and_keys_without_an_authority_prove_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path)
    with pytest.raises(BriefError, match="certificate expired on"):
        check_proof(room.tell(), DESK, room.authority, now() + datetime.timedelta(days=2))
    with pytest.raises(BriefError, match="cannot be verified"):
        check_proof(room.tell(), DESK, "", now())
