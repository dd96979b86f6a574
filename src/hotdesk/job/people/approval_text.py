"""A card as text for a terminal: facts first, then the subject, and last, quoted, the worker's words."""

from __future__ import annotations

from collections.abc import Mapping

from hotdesk.brief.names import get_registrable_domain
from hotdesk.errors import make_printable
from hotdesk.event import Pending
from hotdesk.job.people.wait import MAX_WORDS_CHARS, Card

MAX_FACT_CHARS = 500
"""Maximum characters shown of a fact or of a line."""
MAX_LINES = 200
"""Maximum lines shown of the subject."""
KINDS = {
    "plan": "a plan",
    "step": "a step",
    "amendment": "a change of the plan",
    "repeat": "repeating acts with an unknown outcome",
    "question": "a question",
    "pilot": "continuing after the pilot",
    "cohort": "one request that many items make",
    "review": "a verdict on an item's result",
}


def format_card(pending: Pending, card: Card | None, now: int) -> str:
    """Format a pending request. Without a card, only the facts of the event are shown."""
    facts = {
        "kind": KINDS[pending.kind],
        **({"step": pending.step} if pending.step else {}),
        **({} if card is None else _encode_hosts(card.facts)),
        "digest": pending.digest[:16],
        "job": pending.job,
        "time left": describe_deadline(pending, now),
    }
    title = "the details of this request are missing, so it can only be refused" if card is None else card.title
    lines = [
        f"{pending.id}  {format_fact(title)}",
        *(f"  {format_fact(name):9} {format_fact(value)}" for name, value in facts.items()),
    ]
    return "\n".join([*lines, *([] if card is None else [*format_lines(card), *quote_words(card.words)])])


def _encode_hosts(facts: Mapping[str, str]) -> dict[str, str]:
    """Write a host in its ASCII form, so that no letter can pass for another, and put its domain first."""
    encoded = {name: encode_punycode(value) if name == "host" else value for name, value in facts.items()}
    return {"domain": get_registrable_domain(encoded["host"]), **encoded} if "host" in encoded else encoded


def encode_punycode(host: str) -> str:
    """Return a host name in its ASCII form; escape one that has none."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host.encode("unicode_escape").decode()


def format_lines(card: Card) -> list[str]:
    """Return the card's lines, each with a mark that no fact has, and state how many are omitted."""
    lines = [f"  | {format_fact(line)}" for line in card.lines[:MAX_LINES]]
    rest = len(card.lines) - MAX_LINES
    return [*lines, f"  | … and {rest} more lines; `hotdesk approve --json` shows all"] if rest > 0 else lines


def quote_words(words: str) -> list[str]:
    """Quote the worker's words. Double quotes are replaced, so the text cannot end the quotation."""
    text = make_printable(words[:MAX_WORDS_CHARS]).replace('"', "'")[:MAX_WORDS_CHARS]
    return [f'  the worker says (unchecked): "{text}"'] if text else []


def format_fact(value: str) -> str:
    """Format one fact as a single printable line, and state how many characters are omitted."""
    rest = len(value) - MAX_FACT_CHARS
    return make_printable(value[:MAX_FACT_CHARS]) + (
        f" … and {rest} more characters; `hotdesk approve --json` shows all" if rest > 0 else ""
    )


def describe_deadline(pending: Pending, now: int) -> str:
    seconds = (pending.until - now) / 1000
    if seconds <= 0:
        return f"none left; it counts as {pending.otherwise}"
    span = (
        f"{seconds:.0f} s" if seconds < 180 else f"{seconds / 60:.0f} min" if seconds < 10800 else format_hours(seconds)
    )
    return f"{span}, then {pending.otherwise}"


def format_hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
