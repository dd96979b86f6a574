"""Options that several subcommands share: a desk's size, its environment, a command."""

from __future__ import annotations

import argparse
import os

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cli import prestart
from hotdesk.cli.parser import COMMAND, parse_timeout
from hotdesk.config import Config, parse_size
from hotdesk.desk.image import image
from hotdesk.desk.seam import Spec, format_bound
from hotdesk.errors import BriefError, ImageError
from hotdesk.walls import NAMES

DEFAULT_CPUS, DEFAULT_MEMORY, DEFAULT_DISK = 2.0, "2G", "16G"
"""Default CPUs, memory and disk of a desk, also on a machine that has less."""


def add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", default="base", help="image to open the desk from (default: %(default)s)")
    parser.add_argument("--cpus", type=float, default=DEFAULT_CPUS, help="number of CPUs (default: 2)")
    parser.add_argument("--memory", default=DEFAULT_MEMORY, help="memory limit, such as 512M or 4G (default: 2G)")
    parser.add_argument("--disk", default=DEFAULT_DISK, help="size of the writable disk (default: 16G)")
    parser.add_argument(
        "--disk-in",
        choices=("disk", "memory"),
        default="disk",
        help="where to store the writable disk (default: disk); in memory it counts towards --memory",
    )
    parser.add_argument("--pids", type=int, default=1024, help="maximum number of processes (default: 1024)")
    parser.add_argument(
        "--wall", default="container", choices=NAMES[1:], help="the isolation of the desk (default: container)"
    )
    parser.add_argument(
        "--root",
        action="store_true",
        help="allow root in the desk: sudo, and `--user root` of `hotdesk exec` and `hotdesk shell`",
    )
    add_env(parser)


def add_scope(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_argument_group(
        "network access (without any of these options the desk has none); each option may be repeated"
    )
    scope.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="requests to admit: 'example.test' (to read), 'GET example.test/data/*', 'write api.test', "
        "'read *.example.test down=50M' (at most 50 MiB of responses); or the name of a rule set: "
        "pypi, npm, debian, github-read",
    )
    scope.add_argument("--deny", action="append", metavar="RULE", help="exceptions to --allow")
    scope.add_argument(
        "--ask", action="append", metavar="RULE", help="requests that wait until a person runs `hotdesk approve`"
    )
    scope.add_argument(
        "--grant",
        action="append",
        metavar="GRANT",
        help="a vault secret that the egress proxy inserts into requests: 'erp-token@erp.test', "
        "'key@api.test header=X-Key env=API_KEY'",
    )
    scope.add_argument(
        "--map",
        action="append",
        metavar="NAME=HOST:PORT",
        help="send requests for a host name to this address, such as erp.test=127.0.0.1:8443",
    )
    scope.add_argument("--no-ask", action="store_true", help="do not let the desk request more access")


def add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env", action="append", metavar="NAME=VALUE", help="environment variable of programs in the desk; repeatable"
    )


def add_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(COMMAND, nargs="*", help="the command and its arguments; `--` before it is optional")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        type=parse_timeout,
        metavar="SECONDS",
        help="kill the command after this time; the exit code is then 124",
    )


STREAM = "print each event of a job as a line of JSON, and its outcome as the last line"


def add_json(parser: argparse.ArgumentParser, what: str = "print JSON") -> None:
    parser.add_argument("--json", action="store_true", help=what)


def parse_env(pairs: list[str] | None, option: str = "--env", value_name: str = "VALUE") -> dict[str, str]:
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise BriefError(f"{option} must be NAME={value_name}, not {pair!r}")
        found[name] = value
    return found


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Split SOURCE:TARGET."""
    source, colon, target = text.partition(":")
    if not source or not colon or not target:
        raise BriefError(f"{option} must be SOURCE:TARGET, not {text!r}")
    return source, target


def require_command(command: list[str], example: str) -> list[str]:
    if not command:
        raise BriefError(f"no command given; write it like `{example}`")
    return command


def make_spec(arguments: argparse.Namespace, deadline: float, idle: float) -> Spec:
    require_machine(arguments)
    _require_image(arguments.image)
    return Spec(
        image=arguments.image,
        cpus=arguments.cpus,
        memory=parse_size(arguments.memory),
        disk=parse_size(arguments.disk),
        disk_in=arguments.disk_in,
        pids=arguments.pids,
        deadline=deadline,
        idle=idle,
        env=_make_env(arguments),
        root=arguments.root,
        wall=arguments.wall,
    )


def require_machine(arguments: argparse.Namespace) -> None:
    cpus = os.cpu_count() or 1
    if arguments.cpus > max(cpus, DEFAULT_CPUS):
        raise BriefError(f"--cpus {arguments.cpus:g} is more than this machine has; use 0.01 to {cpus}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _require_size("memory", arguments.memory, memory, DEFAULT_MEMORY, "16M")
    if arguments.disk_in == "disk":
        _require_size("disk", arguments.disk, _measure_disk(), DEFAULT_DISK, "1M")


def _require_size(name: str, text: str, most: int, default: str, least: str) -> None:
    if parse_size(text) > max(most, parse_size(default)):
        bound = format_bound(most, " bytes")
        raise BriefError(f"--{name} {text} is more than this machine has; use {least} to {bound}")


def _measure_disk() -> int:
    """Return the bytes of the file system of desks' disks, used and free: their files are sparse and shared."""
    place = prestart.get_settings().lib
    while True:
        try:
            found = os.statvfs(place)
        except (FileNotFoundError, PermissionError):  # before the first desk, or for an ordinary user
            place = place.parent
        else:
            return found.f_blocks * found.f_frsize


def _require_image(name: str) -> None:
    """Refuse a missing image and list those available. An ordinary user's images, on a server, are not checked."""
    store = prestart.get_settings().images
    if os.geteuid() != 0 or image.get_record_path(store, image.as_name(name)).exists():
        return
    there = sorted(each.stem for each in (store / "images").glob("*.json"))
    images = f"the images are {', '.join(there)}" if there else "there are no images yet: run `hotdesk setup`"
    raise ImageError(f"image {name!r} is not on this machine; {images}; {image.describe_remedy(name)}")


def _make_env(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the variables of a desk: those of its allowed presets, overridden by `--env`."""
    env = parse_env(arguments.env)
    if allowed := getattr(arguments, "allow", None):
        from hotdesk.door.policy.presets import build_preset_environment

        return {**build_preset_environment(allowed), **env}
    return env


def find_key(settings: Config, scope: Scope) -> str:
    """Return the vault's root key if the desk is granted secrets, else `""`; see `unlock.find`."""
    if not scope.grants:
        return ""
    from hotdesk.cli import unlock

    return unlock.find(settings, scope)


def make_scope(arguments: argparse.Namespace) -> Scope:
    """Build a desk's scope. Without options nothing more is imported."""
    rules = [*(arguments.allow or [])]
    rules += [f"deny {text}" for text in arguments.deny or []] + [f"ask {text}" for text in arguments.ask or []]
    names = parse_env(arguments.map, "--map", "HOST:PORT")
    if not rules and not arguments.grant and not names:
        return CLOSED
    from hotdesk.door.policy.scope import scope_of

    return scope_of(rules, arguments.grant or [], names, not arguments.no_ask)
