"""Tests of Merkle trees: every record has a proof, and nothing else has."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.drive.merkle import build_levels, compute_root, hash_leaf, is_proven, make_proof


def leaves_of(count: int) -> list[bytes]:
    return [hash_leaf(b"record %d" % number) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 100, 257])
def test_every_record_has_a_proof(count: int) -> None:
    leaves = leaves_of(count)
    levels, root = build_levels(leaves), compute_root(leaves)
    for index, leaf in enumerate(leaves):
        assert is_proven(leaf, index, count, make_proof(levels, index), root)


def test_the_root_is_that_of_the_standard() -> None:
    first, second, third = leaves_of(3)
    node = hashlib.sha256(b"\1" + first + second).digest()
    assert compute_root([first, second, third]) == hashlib.sha256(b"\1" + node + third).digest()


def test_a_proof_of_ten_thousand_is_short() -> None:
    levels = build_levels(leaves_of(10_000))
    assert max(sum(map(len, make_proof(levels, index))) for index in (0, 5000, 9999)) <= 14 * 32


@pytest.mark.slow
@given(count=st.integers(1, 40), data=st.data())
def test_no_other_place_count_or_record_is_proven(count: int, data: st.DataObject) -> None:
    leaves = leaves_of(count)
    levels, root = build_levels(leaves), compute_root(leaves)
    index = data.draw(st.integers(0, count - 1))
    proof = make_proof(levels, index)
    other = data.draw(st.integers(0, count - 1).filter(lambda each: each != index)) if count > 1 else count
    assert not is_proven(leaves[index], other, count, proof, root)
    assert not is_proven(hash_leaf(b"another"), index, count, proof, root)
    assert not is_proven(leaves[index], index, count, (*proof, b"\0" * 32), root)
    if proof:
        assert not is_proven(leaves[index], index, count, proof[:-1], root)


def test_a_node_is_no_record() -> None:
    leaves = leaves_of(4)
    levels = build_levels(leaves)
    assert not is_proven(levels[1][0], 0, 2, (levels[1][1],), hash_leaf(levels[1][0] + levels[1][1]))
