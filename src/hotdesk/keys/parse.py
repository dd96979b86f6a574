"""Parse messages to the keys process."""

from __future__ import annotations

import base64
import json

from hotdesk.desk.seam import ID_SHAPE
from hotdesk.errors import BriefError
from hotdesk.event import Event, from_json


def as_desk(value: object) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or not ID_SHAPE.fullmatch(value):
        raise BriefError(f"malformed request to the keys process: {str(value)[:40]!r} is not a desk id")
    return value


def as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def parse_values(value: object) -> dict[str, bytes]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BriefError("secrets must be an object of names, each with a string in base64")
    return {str(name): decode_secret(text) for name, text in value.items()}


def decode_secret(text: str) -> bytes:
    """Decode a secret; errors never quote it."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise BriefError("the value of a secret must be encoded in base64") from None


def parse_event(message: object) -> Event:
    if not isinstance(message, dict):
        raise BriefError("malformed request to the keys process: an event is not an object")
    return from_json(str(message["event"]), json.dumps(message["data"]))
