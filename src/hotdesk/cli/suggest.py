"""Suggests a similar name for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def format_suggestion(word: str, choices: Iterable[str]) -> str:
    """Return `; did you mean X?` if a choice is similar to `word`, else `""`."""
    close = difflib.get_close_matches(word, list(choices), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
