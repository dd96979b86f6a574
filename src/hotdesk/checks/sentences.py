"""Parts of the sentences in which checks state their requirements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hotdesk.checks.count_range import MAX_COUNT, Span
from hotdesk.errors import make_printable

_MAX_WORD_CHARS = 200
_MAX_WORDS = 60
"""Maximum words of a list that are named; a brief can list a thousand."""


def list_words(words: Iterable[object], conjunction: str = "and") -> str:
    shown = [show(word) for word in words]
    if len(shown) > _MAX_WORDS:
        return f"{', '.join(shown[:_MAX_WORDS])} {conjunction} {len(shown) - _MAX_WORDS} more"
    return f" {conjunction} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def quote_words(words: Iterable[str], conjunction: str = "and") -> str:
    return list_words((f'"{word}"' for word in words), conjunction)


def list_exactly(words: Iterable[str]) -> str:
    return ", ".join(f'"{show(word)}"' for word in words)


def show(word: object) -> str:
    text = make_printable(str(word))
    return text if len(text) <= _MAX_WORD_CHARS else text[: _MAX_WORD_CHARS - 1] + "…"


def show_count(span: Span, word: str) -> str:
    plural = word if span.least == 1 and span.most in (1, MAX_COUNT) else f"{word}s"
    return f"exactly {span} {plural}" if span.least == span.most else f"{span} {plural}"


def list_numbers(word: str, numbers: Iterable[int]) -> str:
    listed: Sequence[int] = sorted(numbers)
    return f"{word}{'s' if len(listed) != 1 else ''} {list_words(listed)}"
