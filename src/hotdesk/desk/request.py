"""The keeper's vocabulary: what an owner may ask, checked field by field before anything privileged happens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from hotdesk.desk.image.image import as_name
from hotdesk.desk.seam import ID_SHAPE, Spec
from hotdesk.errors import BriefError

Verb = Literal[
    "open", "burn", "touch", "usage", "pause", "resume", "dial", "root", "keys", "door",
    "claim", "snapshot", "forget", "halt", "boot", "save", "reader", "dismiss", "hush",
]  # fmt: skip
TYPES: dict[str, tuple[type, ...]] = {
    "image": (str,),
    "cpus": (int, float),
    "memory": (int,),
    "disk": (int,),
    "disk_in": (str,),
    "pids": (int,),
    "deadline": (int, float),
    "idle": (int, float),
    "env": (dict,),
    "root": (bool,),
    "tenant": (str,),
    "sterile": (bool,),
    "by": (str,),
    "wall": (str,),
}
SNAPSHOT_SHAPE = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
CERTIFICATE_SHAPE = re.compile(
    r"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,4000}-----END CERTIFICATE-----\n", re.ASCII
)


@dataclass(frozen=True, slots=True)
class KeeperRequest:
    """One thing an owner asks."""

    verb: Verb
    desk: str
    spec: Spec = field(default_factory=Spec)
    port: int = 0
    """What to dial."""
    ca: str = ""
    """The certificate of the desk's door, for a desk with a way out."""
    spare: bool = False
    """Whether the desk shall be kept ready, and opened when nobody waits for another."""
    origin: str = ""
    """The desk whose snapshot a fork begins with."""
    snapshot: str = ""
    name: str = ""
    """What an image shall be called."""
    hushed: bool = False
    """Whether all but the screen and what a person uses there shall stand still."""


def write(number: int, request: KeeperRequest) -> bytes:
    """Write a request as its keeper reads it."""
    message: dict[str, object] = {"n": number, "verb": request.verb, "desk": request.desk}
    for name in FIELDS.get(request.verb, ()):
        value = getattr(request, name)
        message[name] = {each: getattr(value, each) for each in TYPES} if isinstance(value, Spec) else value
    return json.dumps(message).encode()


def parse(data: bytes) -> tuple[int, KeeperRequest]:
    """Read a request; anything but the vocabulary is refused."""
    try:
        message = json.loads(data.decode())
    except (ValueError, RecursionError) as e:
        raise BriefError("the keeper was sent something that is not JSON") from e
    if not isinstance(message, dict) or set(message) - {"n", "verb", "desk", *READERS}:
        raise BriefError("the keeper was sent something that is not a request")
    number, verb, desk = message.get("n"), str(message.get("verb")), message.get("desk")
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise BriefError("a request without a number")
    if verb not in get_args(Verb):
        raise BriefError("the keeper does not know that verb")
    if not isinstance(desk, str) or not ID_SHAPE.fullmatch(desk):
        raise BriefError("a request for something that is not a desk's id")
    told = {name: READERS[name](message.get(name)) for name in FIELDS.get(verb, ())}
    return number, KeeperRequest(cast(Verb, verb), desk, **told)  # type: ignore[arg-type]


def number_of(data: bytes) -> int:
    """Give the number of a request that is wrong otherwise, so that whoever waits is told; -1 when it has none."""
    try:
        number = json.loads(data)["n"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return -1
    return number if type(number) is int and 0 <= number < 1 << 63 else -1


def parse_certificate(value: object) -> str:
    """Read the certificate a desk shall trust: PEM, and short."""
    if value is None:
        return ""
    if not isinstance(value, str) or not (value == "" or CERTIFICATE_SHAPE.fullmatch(value)):
        raise BriefError("a request to open with something that is not a certificate")
    return value


def parse_port(value: object) -> int:
    """Read the port of a server inside a desk."""
    if type(value) is not int or not 0 < value < 1 << 16:
        raise BriefError(f"{str(value)[:20]!r} is not a port")
    return value


def parse_spec(value: object) -> Spec:
    """Read the computer that is asked for."""
    if not isinstance(value, dict) or set(value) - set(TYPES):
        raise BriefError("a request to open with unknown fields")
    for name, given in value.items():
        if type(given) not in TYPES[name]:
            raise BriefError(f"a request to open whose {name} has the wrong type")
    env = value.get("env", {})
    if not all(isinstance(text, str) for pair in env.items() for text in pair):
        raise BriefError("a request to open whose env is not text")
    return Spec(**value)


def parse_flag(value: object) -> bool:
    """Read something that is so or not."""
    if value not in (None, True, False):
        raise BriefError("a request with something that is neither so nor not")
    return bool(value)


def parse_origin(value: object) -> str:
    """Read which desk a fork comes from, if it is one."""
    if value in (None, ""):
        return ""
    if not isinstance(value, str) or not ID_SHAPE.fullmatch(value):
        raise BriefError("a fork of something that is not a desk")
    return value


def parse_snapshot(value: object) -> str:
    """Read which snapshot is meant, if one is."""
    if value in (None, ""):
        return ""
    if not isinstance(value, str) or not SNAPSHOT_SHAPE.fullmatch(value):
        raise BriefError(f"{str(value)[:20]!r} is not a snapshot")
    return value


def parse_name(value: object) -> str:
    """Read what an image shall be called."""
    if not isinstance(value, str):
        raise BriefError("an image has no name")
    return as_name(value)


READERS: dict[str, Callable[[object], object]] = {
    "spec": parse_spec,
    "ca": parse_certificate,
    "port": parse_port,
    "spare": parse_flag,
    "origin": parse_origin,
    "snapshot": parse_snapshot,
    "name": parse_name,
    "hushed": parse_flag,
}
FIELDS: dict[str, tuple[str, ...]] = {
    "open": ("spec", "ca", "spare", "origin", "snapshot"),
    "claim": ("spec", "ca"),
    "dial": ("port",),
    "halt": ("snapshot",),
    "boot": ("snapshot",),
    "forget": ("snapshot",),
    "save": ("snapshot", "name"),
    "hush": ("hushed",),
}
"""What a verb says beside whom it is about."""
