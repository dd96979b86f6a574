"""The bodies of requests at an owner's control socket, parsed strictly."""

from __future__ import annotations

import re

from hotdesk.brief import CLOSED, Scope, parse_scope
from hotdesk.desk.request import parse_snapshot, parse_spec
from hotdesk.desk.seam import Keep, Spec
from hotdesk.errors import BriefError

BEHIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}")


def parse_order(data: object) -> tuple[Spec, Scope, bool]:
    if not isinstance(data, dict) or not set(data) <= {"spec", "scope", "personal"}:
        raise BriefError("a request to open a desk is an object with `spec`, `scope` and `personal` only")
    scope = parse_scope(data["scope"]) if "scope" in data else CLOSED
    spec = parse_spec(data.get("spec", {}))
    if spec.volumes:
        raise BriefError("only the server that created a volume can mount it; the control socket cannot")
    return spec, scope, data.get("personal") is True


def parse_forks(data: object) -> tuple[int, str, bool]:
    match data:
        case {"count": int(count), **rest} if type(count) is int and rest.keys() <= {"snapshot", "memory"}:
            return count, parse_snapshot(rest.get("snapshot")), rest.get("memory") is True
    raise BriefError("a request to fork a desk needs `count` (a whole number), and may have `snapshot` or `memory`")


def parse_keep(data: object) -> Keep:
    match data:
        case {"keep": "disk", **rest} if not rest:
            return "disk"
        case {**rest} if rest in ({}, {"keep": "ram"}):
            return "ram"
    raise BriefError("a request to pause a desk may have `keep` only: `ram` or `disk`")


def parse_answer(data: object) -> tuple[bool, str, str]:
    """Parse an answer: the decision, the question's digest, and on whose behalf it is given."""
    match data:
        case {"approved": bool(approved), "digest": str(digest), **rest} if digest and rest.keys() <= {"behind"}:
            return approved, digest, parse_behind(rest.get("behind", ""))
    raise BriefError("a decision needs `approved` (true or false) and `digest` (the digest of the question)")


def parse_allow(data: object) -> tuple[str, str]:
    match data:
        case {"rule": str(rule), **rest} if rule and rest.keys() <= {"behind"}:
            return rule, parse_behind(rest.get("behind", ""))
    raise BriefError(
        "a request to allow more needs `rule`, an egress rule such as `GET https://erp.example.test/orders`"
    )


def parse_unlock(data: object) -> str:
    match data:
        case {"root": str(root), **rest} if not rest:
            return root
    raise BriefError("a request to unlock the vault needs `root`, the vault's root key")


def parse_behind(name: object) -> str:
    """Parse on whose behalf a request is made: a name of limited length and characters."""
    if not isinstance(name, str) or (name and not BEHIND.fullmatch(name)):
        raise BriefError("the name of a caller (`behind`) must be 1 to 100 letters, digits, spaces and . _ @ -")
    return name


def name_caller(pid: int, uid: int, behind: str = "") -> str:
    """Name the caller as the kernel identifies it, and on whose behalf it claims to act."""
    return f"uid {uid} pid {pid}" + (f" for {behind}" if behind else "")
