"""One hash for many records, and a short proof for each (RFC 9162): the siblings from its leaf to the root. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_LEAF, _NODE = b"\0", b"\1"
"""Prefixes that make the hashes of leaves and nodes differ, so that no node can be passed off as a record."""


def hash_leaf(data: bytes) -> bytes:
    return hashlib.sha256(_LEAF + data).digest()


def _hash_node(first: bytes, second: bytes) -> bytes:
    return hashlib.sha256(_NODE + first + second).digest()


def build_levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Build the tree over hashes of records: the leaves first, the root last. A node without a sibling moves up."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_hash_node(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
        levels.append([*above, below[-1]] if len(below) % 2 else above)
    return levels


def compute_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over hashes of records; for no records, the hash of an empty string."""
    return build_levels(leaves)[-1][0] if leaves else hashlib.sha256(b"").digest()


def make_proof(levels: Sequence[Sequence[bytes]], index: int) -> tuple[bytes, ...]:
    proof = []
    for level in levels[:-1]:
        sibling = index ^ 1
        if sibling < len(level):
            proof.append(level[sibling])
        index >>= 1
    return tuple(proof)


def is_proven(leaf: bytes, index: int, count: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a hash is the leaf at an index of a tree with `count` leaves and this root."""
    if not 0 <= index < count:
        return False
    at, last, found = index, count - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if at % 2 or at == last:
            found = _hash_node(sibling, found)
            while at and not at % 2:
                at, last = at >> 1, last >> 1
        else:
            found = _hash_node(found, sibling)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root
