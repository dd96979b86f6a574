"""Suggest names for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def format_suggestion(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean X?` for a word that is close to a known one; nothing otherwise."""
    close = difflib.get_close_matches(word, list(choices), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
