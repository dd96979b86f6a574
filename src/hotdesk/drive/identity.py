"""Identities in the drive, as text: `uid:1000` for a user of this machine, `tenant:…` for a tenant of a server.

Rights follow from the user id that the kernel reports of a process. The variables that `sudo` sets are shown, and
determine who owns a copied file; they give no right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from hotdesk.errors import BriefError, make_printable

OPERATOR = "uid:0"
"""The operator, who may read, write and remove everything."""
EVERYBODY = "*"
SHAPE = re.compile(r"[a-z]{1,16}:[A-Za-z0-9._-]{1,64}")
_MOST_READERS = 64
_KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""The pattern of a server key's name, which identifies the requester of a job."""
NUMBER = re.compile(r"[0-9]{1,9}")


def get_current_user() -> str:
    return f"uid:{os.geteuid()}"


def find_invoker() -> tuple[int, int] | None:
    """Return the user and group that called `sudo`, or `None` if root does not act through `sudo`."""
    return _read_invoker(os.geteuid(), os.environ)


def _read_invoker(uid: int, variables: Mapping[str, str]) -> tuple[int, int] | None:
    ids = variables.get("SUDO_UID", ""), variables.get("SUDO_GID", "")
    if uid != 0 or not all(map(NUMBER.fullmatch, ids)):
        return None
    return int(ids[0]), int(ids[1])


def describe_actor() -> str:
    """Describe this process for an event, such as `uid 0 pid 4711 sudo 1000` or `… key anna`."""
    return describe_caller(os.geteuid(), os.getpid(), os.environ)


def describe_caller(uid: int, pid: int, variables: Mapping[str, str]) -> str:
    """Describe a process by its user id, process id and environment."""
    behind = _read_invoker(uid, variables)
    key = variables.get("HOTDESK_REQUESTER", "")
    key_text = f" key {key}" if uid in (0, os.geteuid()) and _KEY_NAME.fullmatch(key) else ""
    return f"uid {uid} pid {pid}" + (f" sudo {behind[0]}" if behind else "") + key_text


def check_owner(text: str) -> str:
    if not SHAPE.fullmatch(text):
        raise BriefError(f"{make_printable(text[:80])!r} is not a valid identity; write a user such as uid:1000")
    return text


def check_readers(readers: Iterable[str]) -> tuple[str, ...]:
    """Return the readers without duplicates; raise `BriefError` for an invalid one."""
    found = tuple(dict.fromkeys(readers))
    if len(found) > _MOST_READERS:
        raise BriefError(f"a file can have at most {_MOST_READERS} readers; use * to let everyone read it")
    return tuple(each if each == EVERYBODY else check_owner(each) for each in found)


def may_write(who: str, owner: str) -> bool:
    return who in (owner, OPERATOR)


def may_read(who: str, owner: str, readers: Iterable[str]) -> bool:
    return may_write(who, owner) or any(each in (who, EVERYBODY) for each in readers)
