"""Keep an error to the desk whose handling failed: it ends this desk, not the keeper and all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hotdesk.errors import HotdeskError, KeeperError

Burn = Callable[[str, str], None]
"""Ends a desk, by its id, for a reason."""
_MAX_REASON = 2000
"""Maximum characters of a reason: the `repr` of an error can hold all of what could not be read."""


@contextmanager
def contain(desk: str, burn: Burn, answer: Callable[[KeeperError], None] = lambda error: None) -> Iterator[None]:
    """Burn a desk if the block fails, after answering the request that waits for it."""
    try:
        yield
    except Exception as e:  # noqa: BLE001 - outer boundary: one desk must not end the others
        why = describe(e)
        answer(KeeperError(why))
        burn(desk, why)


def describe(error: Exception) -> str:
    if isinstance(error, HotdeskError | OSError):
        return str(error)[:_MAX_REASON]
    return f"internal error of the keeper: {error!r}"[:_MAX_REASON]
