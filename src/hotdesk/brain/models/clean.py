"""Makes what a model sent storable: text that UTF-8 can encode, JSON without excessive depth. Pure.

A reply is stored, and sent back with every later request. What cannot be encoded or read again would end its job.
"""

from __future__ import annotations

from typing import Any

from hotdesk.strict import StrictError, parse_json

MAX_DEPTH = 64
"""Maximum depth of lists and objects in a reply."""
_MAX_TOKENS = 10**12


def clean_text(text: str) -> str:
    """Join the two halves of characters that were sent apart, and replace lone surrogates."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _clean_json(value: object, depth: int = MAX_DEPTH) -> object:
    """Return JSON with clean texts and keys; raise `ValueError` if it is too deep."""
    if isinstance(value, str):
        return clean_text(value)
    if not isinstance(value, dict | list):
        return value
    if not depth:
        raise ValueError(f"it has more than {MAX_DEPTH} lists and objects inside each other")
    if isinstance(value, list):
        return [_clean_json(each, depth - 1) for each in value]
    return {_clean_json(key, 0): _clean_json(each, depth - 1) for key, each in value.items()}


def clean_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a provider's message with clean texts; raise `ValueError` if it is too deep."""
    return {key: _clean_json(value) for key, value in message.items()}


def clean_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return a request's body with clean texts, whoever wrote them: a person, a desk or a brief."""
    return {key: _clean_json(value, 2 * MAX_DEPTH) for key, value in body.items()}  # it has messages inside


def parse_arguments(text: str) -> object:
    """Parse a call's arguments; what is not JSON, or too deep, is returned as text, for `Tool.check` to refuse."""
    if not text.strip():
        return {}
    try:
        return _clean_json(parse_json(text, duplicates=True))
    except (StrictError, ValueError):
        return clean_text(text)


def is_storable(text: str) -> bool:
    """Return whether a text is JSON that can be sent back as it is."""
    try:
        data = parse_json(text, duplicates=True)
        return bool(_clean_json(data) == data)
    except (StrictError, ValueError):
        return False


def read_count(value: object) -> int:
    """Return a number of tokens; 0 if the provider sent none, or one that cannot be true."""
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else 0
