"""File entries reported from inside a sandbox, validated: the program that reports them is not trusted."""

from __future__ import annotations

from datetime import UTC, datetime

from hotdesk.api.e2b.envd.connect import Message
from hotdesk.errors import LinkError

TYPES = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY"}
TEXTS = ("name", "path", "permissions", "owner", "group")
_FOLDER_SIZE = 4096
"""The size of a folder on ext4, E2B's file system; btrfs reports 0 for an empty one."""
EARLIEST, LATEST = -62135596800, 253402300799
"""The first and last Unix time that has a date."""


def as_entry(value: object) -> Message:
    """Convert a file description to the format of E2B's API."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), str) for name in TEXTS):
        raise make_malformed_error()
    size, mode, modified = (value.get(name) for name in ("size", "mode", "modified"))
    if type(size) is not int or type(mode) is not int or type(modified) is not int:
        raise make_malformed_error()
    if value.get("kind") == "directory":
        size = max(size, _FOLDER_SIZE)
    entry: Message = {name: value[name] for name in TEXTS}
    entry |= {"size": str(min(max(size, 0), 1 << 62)), "mode": mode & 0o777, "modifiedTime": as_time(modified)}
    if (kind := TYPES.get(str(value.get("kind")))) is not None:
        entry["type"] = kind
    if isinstance(target := value.get("target"), str):
        entry["symlinkTarget"] = target
    if notes := _as_metadata(value.get("metadata")):
        entry["metadata"] = notes
    return entry


def _as_metadata(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise make_malformed_error()
    return {str(key): str(text) for key, text in value.items()}


def as_time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(min(max(seconds, EARLIEST), LATEST), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z" if moment.year >= 1000 else "1970-01-01T00:00:00Z"


def make_malformed_error() -> LinkError:
    return LinkError("malformed file description from hotdesk's file program in the sandbox; try again")
