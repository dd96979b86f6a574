"""The data types of SSH messages (RFC 4251, section 5)."""

from __future__ import annotations

from hotdesk.errors import HotdeskError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class SshError(HotdeskError):
    """The SSH client broke the protocol, or requested something that is not supported."""


def encode_uint32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def encode_string(data: bytes) -> bytes:
    """Encode a string: its length, then its bytes."""
    return len(data).to_bytes(4, "big") + data


def encode_mpint(magnitude: bytes) -> bytes:
    """Encode a non-negative number that is given as big-endian bytes."""
    magnitude = magnitude.lstrip(b"\0")
    return encode_string(b"\0" + magnitude if magnitude and magnitude[0] & 0x80 else magnitude)


def encode_names(values: Iterable[bytes]) -> bytes:
    return encode_string(b",".join(values))


class FieldReader:
    """Reads the fields of one message in order; a missing field raises `SshError`."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.at = start

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise SshError("an SSH message is truncated")
        part = self.data[self.at : end]
        self.at = end
        return part

    def read_byte(self) -> int:
        return self.take(1)[0]

    def read_boolean(self) -> bool:
        return self.take(1) != b"\0"

    def read_uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def read_uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def read_string(self) -> bytes:
        return self.take(self.read_uint32())

    def read_text(self) -> str:
        """Read a string as text; undecodable bytes are kept as surrogates."""
        return self.read_string().decode("utf-8", "surrogateescape")

    def read_names(self) -> list[bytes]:
        return self.read_string().split(b",")

    def end(self) -> None:
        """Refuse data after the last field."""
        if self.at != len(self.data):
            raise SshError("an SSH message has trailing data")
