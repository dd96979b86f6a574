"""Read fields of untrusted messages with type checks."""

from __future__ import annotations

import math
from typing import Any

from hotdesk.hands.reader import ProtocolError


class UntrustedObject:
    """An object from the peer. Each field is read with its expected type, and a wrong type raises `ProtocolError`."""

    def __init__(self, data: object) -> None:
        if not isinstance(data, dict):
            raise ProtocolError("expected an object")
        self.data: dict[str, Any] = data

    def read_text(self, name: str, longest: int = 4000) -> str:
        """Return a text, cut to a length; empty if absent."""
        return clip(self.data.get(name, ""), longest)

    def read_number(self, name: str) -> float:
        """Return a number; 0 if absent."""
        value = self.data.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
            raise ProtocolError(f"the field {name} is not a number")
        return value

    def read_integer(self, name: str) -> int:
        """Return a whole number, rounded down; 0 if absent."""
        return math.floor(self.read_number(name))

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """Return a boolean; `otherwise` if absent."""
        if not isinstance(value := self.data.get(name, otherwise), bool):
            raise ProtocolError(f"the field {name} is neither true nor false")
        return value

    def read_object(self, name: str) -> UntrustedObject:
        """Return an object; empty if absent."""
        return UntrustedObject(self.data.get(name, {}))

    def read_objects(self, name: str) -> list[UntrustedObject]:
        """Return a list of objects; empty if absent."""
        return [UntrustedObject(one) for one in self.read_list(name)]

    def read_list(self, name: str) -> list[Any]:
        """Return a list; empty if absent."""
        if not isinstance(value := self.data.get(name, []), list):
            raise ProtocolError(f"the field {name} is not a list")
        return value

    def __contains__(self, name: str) -> bool:
        return name in self.data


def clip(value: object, longest: int) -> str:
    """Cut a text to a length; replace invalid characters."""
    if not isinstance(value, str):
        raise ProtocolError("expected a text")
    return value[:longest].encode("utf-8", "replace").decode()
