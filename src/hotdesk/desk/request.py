"""Requests to the keeper, validated field by field before any privileged operation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import as_name
from hotdesk.desk.seam import ID_SHAPE, Spec
from hotdesk.desk.volume.paths import MAX_SIZE, MIN_SIZE
from hotdesk.errors import BriefError
from hotdesk.strict import Otherwise, Range, StrictError, compile_reader

Verb = Literal[
    "open", "burn", "touch", "usage", "pause", "resume", "dial", "root", "keys", "door",
    "claim", "snapshot", "forget", "halt", "boot", "save", "reader", "dismiss", "suspend",
    "make-volume", "drop-volume", "read-volume",
    "may_save", "checkpoint", "hibernate", "recall", "woken", "strike", "gate", "ungate",
]  # fmt: skip
Empty: TypeAlias = Literal[""]
FIELDS: dict[str, Any] = {
    "spec": Spec,
    "ca": Annotated[
        str,
        re.compile(r"(?:-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,4000}-----END CERTIFICATE-----\n)?", re.ASCII),
        Otherwise("expected a certificate in PEM form, or an empty text"),
    ],
    "port": Annotated[int, Range(1, 65535), Otherwise("expected a port from 1 to 65535")],
    "spare": Annotated[bool, Otherwise("expected a boolean")],
    "origin": Annotated[Empty | Annotated[str, ID_SHAPE], Otherwise("expected a desk id, or an empty text")],
    "snapshot": Annotated[
        Empty | Annotated[str, re.compile(r"[1-9][0-9]{0,8}", re.ASCII)], Otherwise("expected the number of a snapshot")
    ],
    "name": Annotated[str, as_name],
    "suspended": Annotated[bool, Otherwise("expected a boolean")],
    "size": Annotated[
        int, Range(MIN_SIZE, MAX_SIZE), Otherwise(f"expected the size of a volume, {MIN_SIZE} to {MAX_SIZE} bytes")
    ],
    "memory": Annotated[bool, Otherwise("expected a boolean")],
    "stop": Annotated[bool, Otherwise("expected a boolean")],
    "spare_hibernated": Annotated[bool, Otherwise("expected a boolean")],
    "token": Annotated[str, re.compile(r"[0-9a-f]{64}", re.ASCII), Otherwise("expected a token of 64 hex digits")],
}
"""The optional fields of a request. Verbs ignore fields they do not use."""
_FIELDS_OF: dict[str, tuple[str, ...]] = {
    "open": ("spec", "ca", "spare", "origin", "snapshot", "memory"),
    "claim": ("spec", "ca"),
    "gate": ("spec",),
    "dial": ("port",),
    "halt": ("snapshot",),
    "boot": ("snapshot",),
    "forget": ("snapshot",),
    "save": ("snapshot", "name"),
    "suspend": ("suspended",),
    "make-volume": ("size", "origin"),
    "burn": ("spare_hibernated",),
    "may_save": ("stop",),
    "hibernate": ("token",),
}
"""The fields of each verb."""
_REQUIRED = ("spec", "port", "name", "size", "token")
_USUAL = Spec()


@dataclass(frozen=True, slots=True)
class KeeperRequest:
    """A request of an owner to its keeper."""

    verb: Verb
    desk: str
    spec: Spec = field(default_factory=Spec)
    port: int = 0
    """The port to dial."""
    ca: str = ""
    """The certificate of the desk's door; empty without egress."""
    spare: bool = False
    """Whether the desk is for the pool, and is opened only when no other request waits."""
    origin: str = ""
    """The desk whose snapshot a fork starts with, or the volume that a new one copies."""
    snapshot: str = ""
    name: str = ""
    """The name of an image to save."""
    suspended: bool = False
    """Whether all programs but the screen and what a person uses there are frozen."""
    size: int = 0
    """Bytes of a volume."""
    memory: bool = False
    """Whether programs continue: those of `origin` in a fork, or those of a hibernated desk."""
    stop: bool = False
    """Whether the desk ends once its memory is saved."""
    spare_hibernated: bool = False
    """Whether a hibernated desk keeps its saved state: it did not start now, and may do so later."""
    token: str = ""
    """The token that a hibernated desk's guest will send."""


def write(number: int, request: KeeperRequest) -> bytes:
    message: dict[str, object] = {"n": number, "verb": request.verb, "desk": request.desk}
    for name in _FIELDS_OF.get(request.verb, ()):
        value = getattr(request, name)
        message[name] = describe_spec(value) if isinstance(value, Spec) else value
    return json.dumps(message).encode()


def describe_spec(spec: Spec) -> dict[str, object]:
    """Return the fields that differ from the defaults: parsing the others would add 5 % to a claim."""
    return {name: value for name in spec.__slots__ if (value := getattr(spec, name)) != getattr(_USUAL, name)}


def parse(data: bytes) -> tuple[int, KeeperRequest]:
    """Parse a request; refuse unknown fields and verbs."""
    try:
        message = json.loads(data.decode())
    except (ValueError, RecursionError) as e:
        raise BriefError("malformed request to the keeper: not JSON") from e
    if not isinstance(message, dict) or not message.keys() <= {"n", "verb", "desk", *FIELDS}:
        raise BriefError("malformed request to the keeper: not an object, or with unknown fields")
    number, verb, desk = message.get("n"), str(message.get("verb")), message.get("desk")
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise BriefError("malformed request to the keeper: `n` is not a request number")
    if verb not in get_args(Verb):
        raise BriefError(f"malformed request to the keeper: unknown verb {verb[:40]!r}")
    if not isinstance(desk, str) or not ID_SHAPE.fullmatch(desk):
        raise BriefError("malformed request to the keeper: invalid desk id")
    fields = [name for name in _FIELDS_OF.get(verb, ()) if message.get(name) is not None or name in _REQUIRED]
    return number, KeeperRequest(
        cast(Verb, verb), desk, **{name: _parse_field(name, message.get(name)) for name in fields}
    )


_END_REASONS = {
    "asked": "it was burnt by a request",
    "deadline": "its deadline has passed",
    "idle": "it was idle for too long",
    "not whole": "its memory could not be restored",
}


def describe_end(why: str) -> str:
    """Return why a desk ended as a phrase for people; the journal has the short form."""
    return _END_REASONS.get(why, why)


def read_number(data: bytes) -> int:
    """Return the number of an otherwise invalid request, so that its caller gets a reply; -1 if it has none."""
    try:
        number = json.loads(data)["n"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return -1
    return number if type(number) is int and 0 <= number < 1 << 63 else -1


@cache
def _get_reader(name: str) -> Callable[[object], Any]:
    return compile_reader(FIELDS[name])


def _parse_field(name: str, value: object) -> Any:
    try:
        return _get_reader(name)(value)
    except StrictError as e:
        raise BriefError(f"invalid {name}: {e}") from None


def parse_snapshot(value: object) -> str:
    return "" if value is None else str(_parse_field("snapshot", value))


parse_spec, parse_port, parse_name = (partial(_parse_field, name) for name in ("spec", "port", "name"))
