"""What several subcommands ask for: a desk's size, its environment, its id."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from hotdesk.config import parse_size
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError

Image = Annotated[str, Parameter(help="Image to open the desk from.")]
Cpus = Annotated[float, Parameter(help="CPUs it may use.")]
Memory = Annotated[str, Parameter(help="Memory it may use, such as 512M or 4G.")]
Disk = Annotated[str, Parameter(help="Size of its writable disk.")]
DiskIn = Annotated[Literal["disk", "memory"], Parameter(help="Where that disk lies; in memory it counts as memory.")]
Pids = Annotated[int, Parameter(help="Processes it may have.")]
Env = Annotated[
    list[str] | None, Parameter(name="--env", negative="", help="NAME=VALUE for its environment; repeatable.")
]
Command = Annotated[str, Parameter(allow_leading_hyphen=True, help="The command, after `--`.")]


def parse_env(pairs: list[str] | None) -> dict[str, str]:
    """Read NAME=VALUE pairs."""
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise BriefError(f"--env takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Read the two sides of SOURCE:TARGET."""
    source, colon, target = text.partition(":")
    if not source or not colon or not target:
        raise BriefError(f"{option} takes SOURCE:TARGET, not {text!r}")
    return source, target


def make_spec(
    image: str,
    cpus: float,
    memory: str,
    disk: str,
    disk_in: Literal["disk", "memory"],
    pids: int,
    env: list[str] | None,
) -> Spec:
    """Put a desk's options together."""
    return Spec(
        image=image,
        cpus=cpus,
        memory=parse_size(memory),
        disk=parse_size(disk),
        disk_in=disk_in,
        pids=pids,
        env=parse_env(env),
    )
