"""Parse the guest's replies field by field; any reply may come from a hostile desk."""

from __future__ import annotations

from typing import get_args

from hotdesk.desk.link.channel import Body, make_invalid_error
from hotdesk.desk.seam import Change, ChangeKind, Done, Entry, Kind, Running
from hotdesk.errors import FILE_REASONS, FileError

_TEXT_LIMIT = 500
KINDS: dict[str, Kind] = {
    "file": "file",
    "directory": "directory",
    "symlink": "symlink",
}
CHANGES: dict[str, ChangeKind] = {kind: kind for kind in get_args(ChangeKind)}


def as_done(body: Body) -> Done:
    code, signal, text = body.get("code"), body.get("signal"), body.get("text", "")
    if type(code) is not int or not 0 <= code <= 255 or not isinstance(text, str):
        raise make_invalid_error(f"a malformed exit status ({str(code)[:40]!r})")
    if signal is not None and (type(signal) is not int or not 1 <= signal <= 127):
        raise make_invalid_error(f"a malformed signal number ({str(signal)[:40]!r})")
    timed_out, starved = (body.get(name) is True for name in ("timed_out", "starved"))
    return Done(code, signal=signal, timed_out=timed_out, reason=text[:_TEXT_LIMIT], out_of_memory=starved)


def check(path: str, body: Body) -> None:
    if "error" in body:
        raise as_error(path, body)


def as_error(path: str, body: Body) -> FileError:
    """Return the error for a guest's error code; unknown codes become `other`."""
    reason = body.get("error")
    code = reason if isinstance(reason, str) and reason in FILE_REASONS else "other"
    return FileError(f"{path}: {str(body.get('text'))[:_TEXT_LIMIT]}", code)


def as_entry(value: object) -> Entry:
    if not isinstance(value, dict):
        raise make_invalid_error("a malformed description of a file")
    texts = [text for name in ("name", "path") if isinstance(text := value.get(name), str)]
    numbers = [n for name in ("size", "mode", "uid", "gid", "modified") if type(n := value.get(name)) is int]
    target = value.get("target")
    if len(texts) != 2 or len(numbers) != 5 or not (target is None or isinstance(target, str)):
        raise make_invalid_error("a malformed description of a file")
    name, path = texts
    size, mode, uid, gid, modified = numbers
    kind = KINDS.get(str(value.get("kind")), "other")
    return Entry(name, path, kind, size, mode & 0o7777, uid, gid, modified / 1e6, target)


def as_change(value: object) -> Change:
    if not isinstance(value, dict) or not isinstance(path := value.get("path"), str):
        raise make_invalid_error("a malformed record of a changed file")
    kind = CHANGES.get(str(value.get("kind")))
    if kind is None:
        raise make_invalid_error("a malformed record of a changed file")
    return Change(kind, path)


def as_running(value: object) -> Running:
    if not isinstance(value, dict) or type(pid := value.get("pid")) is not int:
        raise make_invalid_error("a malformed record of a process")
    argv, code = value.get("argv"), value.get("code")
    if not isinstance(argv, list) or not all(isinstance(text, str) for text in argv):
        raise make_invalid_error("a malformed record of a process")
    return Running(pid, tuple(argv), code if type(code) is int else None)
