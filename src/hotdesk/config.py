"""Settings and paths, read once at the edge: `HOTDESK_*` variables, then one TOML file, then defaults."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError
from hotdesk.strict import Length, Otherwise, Range, StrictError, compile_reader
from hotdesk.walls import NAMES

GIB = 1 << 30
MIB = 1 << 20
_TIME_SHAPE = re.compile(r"[0-9]{1,9}[smhd]")
WALLS = NAMES
"""Walls that a setting may name, even if this machine lacks them."""
GVISOR_PLATFORMS = ("auto", "systrap", "ptrace", "kvm")
APPROVALS = ("auto", "risky", "plan", "every")
"""Ways to approve a plan, from the laxest: no one, a person if it is risky, a person, a person for each step, too."""
TENANT_SHAPE = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
DEFAULT_TENANT = "default"
"""The tenant whose state is in the machine's own directories."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The operator's limits for every brief, besides hosts; `None`: the brief decides."""

    wall: str = "local"
    """The weakest allowed wall."""
    grants: tuple[str, ...] | None = None
    """Patterns of secrets that may be granted; `*` is a wildcard."""
    models: tuple[str, ...] | None = None
    """Patterns of models that a job may use, such as `anthropic:*`."""
    tokens: int | None = None
    dollars: float | None = None
    acts: int | None = None
    seconds: float | None = None
    approve: str = "auto"
    """The laxest allowed way to approve a plan."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model, in dollars per million tokens."""

    input: float
    output: float
    cached: float
    """For tokens read from the provider's cache; equal to `input` if the settings do not say."""
    stored: float | None = None
    """For tokens written to the provider's cache; `None`: equal to `input`."""


@dataclass(frozen=True, slots=True)
class Config:
    """Paths and the operator's settings."""

    run: Path
    """Live state: a directory for each desk, locks, control sockets. Lost at reboot."""
    lib: Path
    """Permanent state: images, the disk pool, drive, vault, journal."""
    images: Path
    """The image store. It is separate from `lib`, so that several state directories can share one."""
    runtime: str = "crun"
    """The OCI runtime program."""
    gvisor_program: str = "runsc"
    """gVisor's runtime: a program name that is looked up on the system's path, or an absolute path."""
    gvisor_platform: str = "auto"
    """gVisor's platform: one of `GVISOR_PLATFORMS`."""
    microvm_emulate: bool = False
    """Whether a machine without KVM may emulate microVMs, which is slow and no isolation boundary."""
    disk: str = "auto"
    """The storage of writable layers: `btrfs`, `ext4`, or `auto`, the first that works here."""
    disk_floor: int = 2 * GIB
    """Minimum free bytes on the state directory's file system, below which no desk is opened."""
    memory_floor: int = 256 * MIB
    """Minimum available bytes of memory, below which no desk is opened."""
    pids_floor: int = 512
    """Minimum number of processes the kernel can still start, below which no desk is opened."""
    ceiling: tuple[str, ...] = ()
    """Egress rules that no brief can exceed, as text; empty: no limit."""
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Host names with an upstream of the operator's choice, such as `erp.internal` to `127.0.0.1:8443`."""
    ca: str = ""
    """Path of a file with certificates that the door trusts in addition to the system's; empty: none."""
    proxy: str = ""
    """The proxy that the door uses, such as `http://host:port`; empty: none."""
    approval_seconds: float = 120.0
    """Seconds the door waits for a person's answer."""
    limits: Ceiling = Ceiling()
    """Limits that no brief can exceed, besides the hosts in `ceiling`."""
    prices: Mapping[str, Price] = field(default_factory=dict, hash=False)
    """Prices by model name; they override all other known prices."""
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict, hash=False)
    """Capabilities of models, by name pattern; they override what hotdesk knows of them."""
    retention_days: float = 30.0
    """Days that the private data of an ended job is kept."""
    patience: float = 60.0
    """Seconds that a job which waits for a person keeps its desk."""
    drive_quota: int = 10 * GIB
    """Bytes that one owner may store in the drive."""
    signers: tuple[str, ...] = ()
    """Signers whose certificates are trusted: fingerprints, or paths of public keys."""
    verify_wall: str = ""
    """The weakest wall of desks that check deliverables; empty: the job's own wall."""
    holder: bool = True
    """Whether `hotdesk run` may use the background holder to open its desk."""
    holder_ready: int = 1
    """Number of desks that a holder keeps ready for the next command, with the spec of the last one."""
    holder_idle: float = 60.0
    """Seconds without use after which a holder ends."""
    serve: Mapping[str, object] = field(default_factory=dict, hash=False)
    """The server's settings, unparsed; `hotdesk serve` checks them."""
    pods: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Settings of an agent whose desks are Kubernetes pods, unparsed; `hotdesk node run` checks them."""


def find_node_identity(settings: Config) -> Path | None:
    """Return the folder with this server's certificate for nodes; `None`: desks are opened on this machine."""
    identity = settings.serve.get("identity")
    return Path(identity) if settings.serve.get("nodes") and isinstance(identity, str) else None


_KINDS: Mapping[str, type] = {
    "images": str,
    "runtime": str,
    "disk": str,
    "disk_floor": int,
    "memory_floor": int,
    "pids_floor": int,
}
"""Settings outside of tables, which an environment variable may also give."""


def load(environ: dict[str, str] | None = None) -> Config:
    env = dict(os.environ) if environ is None else environ
    run, lib, etc = choose_folders(env)
    path = etc / "config.toml"
    overrides = {name: value for name in _KINDS if (value := env.get(f"HOTDESK_{name.upper()}")) is not None}
    try:
        chosen = _load_table(read_table(path), overrides)
    except BriefError as e:
        raise BriefError(f"{path}: {e}") from None
    for name, value in overrides.items():
        chosen[name] = convert(f"HOTDESK_{name.upper()}", value, _KINDS[name])
    if program := env.get("HOTDESK_GVISOR_PROGRAM"):
        chosen["gvisor_program"] = program
    if emulate := env.get("HOTDESK_MICROVM_EMULATE"):
        chosen["microvm_emulate"] = emulate == "1"
    listed = env.get("HOTDESK_SIGNERS", "").replace(",", " ").split()
    chosen["signers"] = (*chosen["signers"], *_read_setting("HOTDESK_SIGNERS", listed, _SIGNERS))
    images = Path(str(chosen.pop("images", lib / "images")))
    machine = Config(run=run, lib=lib, images=images, **chosen)
    return get_tenant_settings(machine, env.get("HOTDESK_TENANT", DEFAULT_TENANT))


def _load_table(table: dict[str, object], overrides: Mapping[str, str]) -> dict[str, Any]:
    """Parse the settings of the file, except those that an environment variable gives."""
    chosen: dict[str, Any] = _load_walls(table.pop("wall", {}))
    for name, kind in _KINDS.items():
        value = table.pop(name, None)
        if value is not None and name not in overrides:
            chosen[name] = convert(name, value, kind)
    chosen |= read_settings("door", table.pop("door", {}), DOOR) | _load_jobs(table)
    chosen |= _load_ceiling(table.pop("ceiling", {}), chosen)
    chosen |= _load_verify(table.pop("verify", {}))
    chosen |= _load_holder(table.pop("holder", {}))
    chosen["serve"] = table.pop("serve", {})
    chosen["pods"] = table.pop("pods", {})
    if table:
        raise BriefError(f"unknown setting {sorted(table)[0]!r}; correct its name or remove it")
    return chosen


def get_tenant_settings(settings: Config, name: str) -> Config:
    """Return a tenant's settings: the machine's own for the default tenant, or with state directories below them."""
    if not TENANT_SHAPE.fullmatch(name):
        raise BriefError(
            f"{name[:40]!r} is not a valid tenant name; use up to 32 lower-case letters, digits and hyphens"
        )
    if name == DEFAULT_TENANT:
        return settings
    return replace(settings, run=settings.run / "tenants" / name, lib=settings.lib / "tenants" / name)


def list_tenants(settings: Config) -> list[str]:
    """List the tenants that have a state directory, the machine's own first. A tenant's settings list only that one.

    Those without one in `run`, which a restart of the machine empties, are listed too.
    """
    found = {each.name for folder in (settings.run, settings.lib) for each in (folder / "tenants").glob("*")}
    names = sorted(name for name in found - {DEFAULT_TENANT} if TENANT_SHAPE.fullmatch(name))
    return [DEFAULT_TENANT, *names]


def list_tenant_settings(settings: Config) -> list[Config]:
    """Return the settings of every tenant that has a state directory, the machine's own first."""
    return [settings, *(get_tenant_settings(settings, name) for name in list_tenants(settings)[1:])]


def _load_ceiling(table: object, chosen: Mapping[str, object]) -> dict[str, object]:
    settings = read_settings("ceiling", table, CEILING)
    hosts = settings.pop("hosts", None)
    if hosts is not None and "ceiling" in chosen:
        raise BriefError("[ceiling] hosts and [door] ceiling mean the same; remove one of them")
    found: dict[str, object] = {"limits": Ceiling(**settings)}
    return found if hosts is None else {**found, "ceiling": hosts}


def _load_holder(table: object) -> dict[str, object]:
    found = read_settings(
        "holder", table, {"enabled": bool, "ready": count(0, 100), "idle": make_number_hint(0.1, 86400)}
    )
    names = {"enabled": "holder", "ready": "holder_ready", "idle": "holder_idle"}
    return {names[name]: value for name, value in found.items()}


def _load_walls(table: object) -> dict[str, object]:
    walls = read_settings("wall", table, {"gvisor": dict, "microvm": dict})
    hints = {
        "gvisor": {"program": _PROGRAM, "platform": make_choice_hint(GVISOR_PLATFORMS)},
        "microvm": {"emulate": bool},
    }
    return {
        f"{wall}_{name}": value
        for wall, settings in walls.items()
        for name, value in read_settings(f"wall.{wall}", settings, hints[wall]).items()
    }


def _load_verify(table: object) -> dict[str, object]:
    settings = read_settings("verify", table, {"signers": _SIGNERS, "wall": make_choice_hint(WALLS[1:])})
    return {"signers": settings.get("signers", ()), "verify_wall": settings.get("wall", "")}


def _load_jobs(table: dict[str, object]) -> dict[str, object]:
    jobs, drive, prices, models = (table.pop(name, {}) for name in ("jobs", "drive", "prices", "models"))
    if not isinstance(models, dict):
        raise BriefError(
            'the setting models is not a table; write [models."NAME"] and the settings of that model below'
        )
    if not isinstance(prices, dict):
        raise BriefError(
            'the setting prices is not a table; write [prices] and lines such as "NAME" = {input = 3, output = 15} '
            "below"
        )
    return {
        **read_settings(
            "jobs", jobs, {"retention_days": make_number_hint(0, 36500), "patience": make_number_hint(0, 86400)}
        ),
        **{f"drive_{name}": value for name, value in read_settings("drive", drive, {"quota": SIZE}).items()},
        "prices": {name: _read_price(name, each) for name, each in prices.items()},
        "models": {name: read_settings(f"models.{name}", each, MODEL) for name, each in models.items()},
    }


def read_settings(name: str, table: object, hints: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise BriefError(f"the setting {name} is not a table; write [{name}] and its settings below")
    if unknown := sorted(set(table) - set(hints)):
        raise BriefError(f"[{name}]: unknown setting {unknown[0]!r}; the settings are {', '.join(hints)}")
    return {key: _read_setting(f"{name}.{key}", value, hints[key]) for key, value in table.items()}


def _read_setting(name: str, value: object, hint: Any) -> Any:
    """Parse one setting; the error says which values are valid."""
    try:
        return compile_reader(hint)(value)
    except StrictError as e:
        where = f"{name}.{e.where}" if e.path else name
        raise BriefError(
            f"the setting {where} {e.why.replace('expected', 'must be', 1)}; or remove the setting"
        ) from None


def _read_price(name: str, table: object) -> Price:
    rate = make_number_hint(0, 1e6)
    found = read_settings(f"prices.{name}", table, dict.fromkeys(("input", "output", "cached", "stored"), rate))
    if "input" not in found or "output" not in found:
        raise BriefError(f'[prices] {name!r} needs input and output; write "{name}" = {{input = 3, output = 15}}')
    return Price(**{"cached": found["input"], **found})


def make_number_hint(least: float, most: float) -> Any:
    return Annotated[float, Range(least, most), float]


def count(least: int, most: float) -> Any:
    return Annotated[int, Range(least, most)]


def make_choice_hint(choices: tuple[str, ...]) -> Any:
    return Annotated[Literal[choices], Otherwise(f"must be one of {', '.join(choices)}")]


def _make_list_hint(shape: str, what: str, least: int = 0) -> Any:
    return Annotated[
        tuple[Annotated[str, re.compile(shape)], ...], Length(sys.maxsize, least), Otherwise(f"must be {what}")
    ]


def as_bytes(value: int | str) -> int:
    return parse_size(value) if isinstance(value, str) else value


SIZE = Annotated[Annotated[int, Range(1)] | str, as_bytes, Otherwise('must be a size, such as "10G"')]
PATTERNS = _make_list_hint(r"[A-Za-z0-9._/:@*-]{1,200}", "a list of names, which may end in `*`")
RULES = _make_list_hint(r"(?s).*", "a list of rules, such as ['read *.example.test']", 1)
_SIGNERS = _make_list_hint(
    r"[0-9a-f]{32}|/[^\0]{1,4095}",
    "a list of fingerprints (32 hexadecimal digits, see `hotdesk key show`) or absolute paths of public keys",
)
_PROGRAM = Annotated[
    str, re.compile(r"/[^\0]{1,4095}|[A-Za-z0-9._+-]{1,255}"), Otherwise("must be the name or the path of a program")
]
CEILING: Mapping[str, Any] = {
    "hosts": RULES,
    "wall": make_choice_hint(WALLS[1:]),
    "grants": PATTERNS,
    "models": PATTERNS,
    "tokens": count(1, 1e12),
    "dollars": make_number_hint(0.01, 1e6),
    "acts": count(1, 1e6),
    "seconds": make_number_hint(1, 7 * 86400),
    "approve": make_choice_hint(APPROVALS),
}
"""Settings in `[ceiling]`."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MODEL: Mapping[str, Any] = {
    "context": count(1000, 1e8),
    "output": count(256, 1e7),
    "window": count(1000, 1e8),
    "thinking": make_choice_hint(("adaptive", "budget", "reasoning", "none")),
    "efforts": Annotated[tuple[make_choice_hint(EFFORTS), ...], Length(7)],  # type: ignore[misc]
    "effort": make_choice_hint(EFFORTS),
    "summary": bool,
    "images": bool,
    "computer": Annotated[
        str,
        re.compile(r"[a-z0-9_]{0,64}"),
        Otherwise('must be the type of a computer-use tool, such as "computer_20251124", or "" for none'),
    ],
    "preserved": make_choice_hint(("bound", "kept", "none")),
}
"""Settings in `[models."NAME"]`: capabilities of a model that hotdesk does not know, or knows wrongly."""
DOOR: Mapping[str, Any] = {
    "ceiling": RULES,
    "names": Annotated[
        dict[str, str], Otherwise('must map names to addresses, such as {"erp.internal" = "127.0.0.1:8443"}')
    ],
    "ca": Annotated[
        str, re.compile(r"/[^\0]*"), Otherwise("must be the absolute path of a file, such as /etc/ssl/own.pem")
    ],
    "proxy": Annotated[
        str,
        re.compile(r"http://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/?"),
        Otherwise("must be http://host:port without user and password, because settings must not contain secrets"),
    ],
    "approval_seconds": make_number_hint(1, 86400),
}
"""Settings in `[door]`."""


def choose_folders(env: dict[str, str]) -> tuple[Path, Path, Path]:
    """Return the run, lib and etc folders: below `HOTDESK_HOME` if set, the system's for root, otherwise by XDG."""
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
    """Return the parsed settings file, or an empty dict if there is none."""
    if not path.exists():
        return {}
    import tomllib  # imported only if there is a file: it costs every command and keeper 10 ms

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except ValueError as e:
        raise BriefError(f"not a TOML file: {e}; correct or remove it") from e


def convert(name: str, value: object, kind: type) -> object:
    """Return a setting's value of the right type; a size may be written as `512M`."""
    if kind is int and value == "0":
        return 0  # `parse_size` refuses it, and `disk_floor = 0` in the file is valid
    if kind is int and isinstance(value, str):
        try:
            return parse_size(value)
        except BriefError as e:
            raise BriefError(f"the setting {name} is not valid: {e}") from None
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise BriefError(
            f"the setting {name} is {value!r}; it must be {'a size such as 2G' if kind is int else 'a text'}"
        )
    return value


def parse_size(text: str) -> int:
    """Parse a size such as `512M`, `2G` or `1.5GiB`; return bytes."""
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


def parse_seconds(value: object) -> float | None:
    """Parse a time: a number of seconds, or text such as `90s`, `15m`, `2h` or `1d`; return `None` if it is invalid."""
    if isinstance(value, str) and _TIME_SHAPE.fullmatch(value):
        return float(int(value[:-1]) * UNITS[value[-1]])
    if isinstance(value, bool) or not isinstance(value, int | float) or value > 1e12:
        return None
    return float(value)
