"""Settings and paths, read once at the edge: `HOTDESK_*` variables over one TOML file over defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.errors import BriefError

GIB = 1 << 30
MIB = 1 << 20
PROXY_SHAPE = re.compile(r"http://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/?")


@dataclass(frozen=True, slots=True)
class Config:
    """Where things are, and what the operator decided."""

    run: Path
    """Live state: one directory a desk, locks, control sockets. Gone with the machine's boot."""
    lib: Path
    """What stays: images, the disk pool."""
    images: Path
    """The image store; apart from `lib` so that several state directories can share one."""
    runtime: str = "crun"
    """The OCI runtime program."""
    disk: str = "auto"
    """What holds writable layers: `btrfs`, `ext4`, or `auto`, the first that works here."""
    disk_floor: int = 2 * GIB
    """Refuse to open a desk when the state directory's file system has less than this free."""
    memory_floor: int = 256 * MIB
    """Refuse to open a desk when the machine has less than this available."""
    pids_floor: int = 512
    """Refuse to open a desk when the kernel can start fewer processes than this."""
    ceiling: tuple[str, ...] = ()
    """Rules no brief can exceed, as text; none: every brief is admitted as it stands."""
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Names that lead to an upstream of the operator's choice: `erp.internal` to `127.0.0.1:8443`."""
    ca: str = ""
    """A file of certificates the door trusts beside the system's."""
    proxy: str = ""
    """The proxy the door goes through: `http://host:port`."""
    approval_seconds: float = 120.0
    """How long the door waits for a person's answer."""


def load(environ: dict[str, str] | None = None) -> Config:
    """Read the settings that hold for this process."""
    env = dict(os.environ) if environ is None else environ
    run, lib, etc = folders(env)
    table = read_table(etc / "config.toml")
    known = {"images": str, "runtime": str, "disk": str, "disk_floor": int, "memory_floor": int, "pids_floor": int}
    chosen: dict[str, object] = {}
    for name, kind in known.items():
        value = env.get(f"HOTDESK_{name.upper()}", table.pop(name, None))
        if value is not None:
            chosen[name] = convert(name, value, kind)
    chosen |= load_door(table.pop("door", {}))
    if table:
        raise BriefError(f"{etc / 'config.toml'}: unknown setting {sorted(table)[0]!r}; remove it")
    images = Path(str(chosen.pop("images", lib / "images")))
    return Config(run=run, lib=lib, images=images, **chosen)  # type: ignore[arg-type]


def load_door(table: object) -> dict[str, object]:
    """Check the settings of the door. Only the file has them: a ceiling the environment could lift is none."""
    if not isinstance(table, dict):
        raise BriefError("setting door is no table; write [door] and its settings below")
    known = {"ceiling": lines, "names": leads, "ca": absolute_path, "proxy": proxy_url, "approval_seconds": duration}
    if unknown := sorted(set(table) - set(known)):
        raise BriefError(f"[door]: unknown setting {unknown[0]!r}; remove it")
    return {name: known[name](value) for name, value in table.items()}


def lines(value: object) -> tuple[str, ...]:
    """Read the ceiling: rules as text."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise BriefError(
            "setting door.ceiling takes a list of rules, as in ['read *.example.test']; for no ceiling remove it"
        )
    return tuple(value)


def leads(value: object) -> dict[str, str]:
    """Read where names lead."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BriefError(
            'setting door.names takes names and where each leads, as in {"erp.internal" = "127.0.0.1:8443"}'
        )
    return dict(value)


def absolute_path(value: object) -> str:
    """Read the path of a file of certificates."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise BriefError("setting door.ca takes the absolute path of a file, as in /etc/ssl/own.pem")
    return value


def proxy_url(value: object) -> str:
    """Read the proxy's URL: secrets are no settings, and so it has no password."""
    if not isinstance(value, str) or not PROXY_SHAPE.fullmatch(value):
        raise BriefError("setting door.proxy takes http://host:port, without a user or password")
    return value


def duration(value: object) -> float:
    """Read a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 86400:
        raise BriefError("setting door.approval_seconds takes seconds, from 1 to 86400")
    return float(value)


def folders(env: dict[str, str]) -> tuple[Path, Path, Path]:
    """Give the run, lib and etc folders: `HOTDESK_HOME`, the system's as root, XDG's otherwise."""
    if home := env.get("HOTDESK_HOME"):
        base = Path(home).absolute()
        return base / "run", base / "lib", base / "etc"
    if os.geteuid() == 0:
        return Path("/run/hotdesk"), Path("/var/lib/hotdesk"), Path("/etc/hotdesk")
    user = Path(env.get("HOME", "/"))
    runtime = env.get("XDG_RUNTIME_DIR") or f"/tmp/hotdesk-{os.geteuid()}"  # noqa: S108 - XDG's own fallback
    data = env.get("XDG_DATA_HOME") or user / ".local/share"
    etc = env.get("XDG_CONFIG_HOME") or user / ".config"
    return Path(runtime) / "hotdesk", Path(data) / "hotdesk", Path(etc) / "hotdesk"


def read_table(path: Path) -> dict[str, object]:
    """Read the settings file; none is an empty one."""
    if not path.exists():
        return {}
    import tomllib  # only where there is a file: it costs every command and keeper 10 ms

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except ValueError as e:
        raise BriefError(f"{path} is not TOML: {e}; mend or remove it") from e


def convert(name: str, value: object, kind: type) -> object:
    """Check one setting's type; sizes may be written as `512M`."""
    if kind is int and isinstance(value, str):
        return parse_size(value)
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise BriefError(f"setting {name} is {value!r}; it takes {'a size' if kind is int else 'text'}")
    return value


def parse_size(text: str) -> int:
    """Read a size such as `512M`, `2G` or `1.5GiB` as bytes."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    body = text.strip().upper().removesuffix("IB").removesuffix("B")
    number, unit = (body[:-1], body[-1]) if body[-1:] in "KMGT" and body else (body, "")
    try:
        size = int(float(number) * units[unit])
    except (ValueError, OverflowError):
        size = 0
    if size <= 0:
        raise BriefError(f"{text!r} is not a size; write one like 512M or 2G")
    return size
