"""Typed access to the fields of messages, in which a caller may send anything."""

from __future__ import annotations

import base64
import binascii
from typing import NoReturn, TypeVar

from hotdesk.api.e2b.envd.connect import Message, RpcError

Kind = TypeVar("Kind")
MAX_PATH_BYTES = 4096
_WORDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
"""What a field must be, for an error message."""


def get_field(message: Message, name: str, kind: type[Kind]) -> Kind | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        _reject_field(name, _WORDS.get(kind, kind.__name__))
    return value


def get_table(message: Message, name: str) -> Message:
    """Return a field that is a message itself; empty if it is missing."""
    found = get_field(message, name, dict)
    return {} if found is None else found


def get_text(message: Message, name: str) -> str:
    """Return a text; empty if it is missing."""
    found = get_field(message, name, str) or ""
    if "\0" in found:
        raise RpcError("invalid_argument", f"{name} contains a NUL byte")
    return found


def get_texts(message: Message, name: str) -> list[str]:
    found: list[object] = get_field(message, name, list) or []
    return [
        get_text({name: one}, name) if one is not None else _reject_field(name, "a list of strings") for one in found
    ]


def read_text_map(message: Message, name: str) -> dict[str, str]:
    found = get_table(message, name)
    if any("\0" in key for key in found):
        _reject_field(name, "an object of strings without NUL")
    return {
        key: get_text({name: value}, name) if value is not None else _reject_field(name, "an object of strings")
        for key, value in found.items()
    }


def _reject_field(name: str, expected: str) -> NoReturn:
    raise RpcError("invalid_argument", f"{name} must be {expected}")


def get_number(message: Message, name: str) -> int:
    """Return a number; 0 if it is missing. Large numbers are sent as text."""
    value = message.get(name)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return get_field(message, name, int) or 0


def get_bytes(message: Message, name: str) -> bytes | None:
    found = get_field(message, name, str)
    if found is None:
        return None
    try:
        return base64.b64decode(found, validate=True)
    except (ValueError, binascii.Error):
        raise RpcError("invalid_argument", f"{name} is not valid base64") from None


def get_path(message: Message, name: str, home: str) -> str:
    """Return an absolute path; a relative one, or one that begins with `~`, is in the user's home."""
    return resolve(get_text(message, name), home)


def resolve(path: str, home: str) -> str:
    """Make a path absolute, without `..` and empty parts."""
    if "\0" in path or len(path.encode("utf-8", "replace")) > MAX_PATH_BYTES:
        raise RpcError("invalid_argument", f"the path contains a NUL byte, or has more than {MAX_PATH_BYTES} bytes")
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{home}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
