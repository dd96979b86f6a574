"""What several subcommands ask for: a desk's size, its environment, a command."""

from __future__ import annotations

import argparse
from importlib import import_module

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import parse_size
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError


def add_spec(parser: argparse.ArgumentParser) -> None:
    """Ask for the size of a desk."""
    parser.add_argument("--image", default="base", help="image to open the desk from (default: base)")
    parser.add_argument("--cpus", type=float, default=2.0, help="CPUs it may use (2)")
    parser.add_argument("--memory", default="2G", help="memory it may use, such as 512M or 4G (2G)")
    parser.add_argument("--disk", default="16G", help="size of its writable disk (16G)")
    parser.add_argument(
        "--disk-in",
        choices=("disk", "memory"),
        default="disk",
        help="where that disk lies; in memory it counts as memory",
    )
    parser.add_argument("--pids", type=int, default=1024, help="processes it may have (1024)")
    parser.add_argument(
        "--root", action="store_true", help="allow root inside: sudo, and --user root of exec and shell"
    )
    add_env(parser)


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Ask where a desk may go, and with which secrets."""
    scope = parser.add_argument_group("the way out (none of these: there is none); each may be given several times")
    scope.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="what it may reach: 'example.test' to read, 'GET example.test/data/*', 'write api.test', "
        "'read *.example.test down=50M'; or the packages of pypi, npm, debian, github-read",
    )
    scope.add_argument("--deny", action="append", metavar="RULE", help="what it may not, of what --allow admits")
    scope.add_argument("--ask", action="append", metavar="RULE", help="what waits for `hotdesk approve`")
    scope.add_argument(
        "--grant",
        action="append",
        metavar="GRANT",
        help="a secret of the vault the door puts in: 'erp-token@erp.test', 'key@api.test header=X-Key env=API_KEY'",
    )
    scope.add_argument(
        "--map",
        action="append",
        metavar="NAME=HOST:PORT",
        help="where a name leads, as in erp.test=127.0.0.1:8443",
    )
    scope.add_argument("--no-ask", action="store_true", help="the desk may not ask for more")


def add_env(parser: argparse.ArgumentParser) -> None:
    """Ask for environment variables."""
    parser.add_argument("--env", action="append", metavar="NAME=VALUE", help="variable for its environment; repeatable")


def add_command(parser: argparse.ArgumentParser) -> None:
    """Ask for a command, best after `--`."""
    parser.add_argument("command", nargs="*", help="the command, after `--`")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Ask for a command's time limit."""
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="kill the command after this; exit code 124")


STREAM = "print each event of a job as a line of JSON, and what became of it as the last"


def add_json(parser: argparse.ArgumentParser, what: str = "print JSON") -> None:
    """Ask how to print."""
    parser.add_argument("--json", action="store_true", help=what)


def parse_env(pairs: list[str] | None, option: str = "--env", value_name: str = "VALUE") -> dict[str, str]:
    """Read NAME=VALUE pairs."""
    found = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise BriefError(f"{option} takes NAME={value_name}, not {pair!r}")
        found[name] = value
    return found


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Read the two sides of SOURCE:TARGET."""
    source, colon, target = text.partition(":")
    if not source or not colon or not target:
        raise BriefError(f"{option} takes SOURCE:TARGET, not {text!r}")
    return source, target


def require_command(command: list[str], example: str) -> list[str]:
    """Refuse a call without a command."""
    if not command:
        raise BriefError(f"nothing to run; write the command after `--`, as in `{example}`")
    return command


def make_spec(arguments: argparse.Namespace, deadline: float, idle: float) -> Spec:
    """Put a desk's options together."""
    return Spec(
        image=arguments.image,
        cpus=arguments.cpus,
        memory=parse_size(arguments.memory),
        disk=parse_size(arguments.disk),
        disk_in=arguments.disk_in,
        pids=arguments.pids,
        deadline=deadline,
        idle=idle,
        env=make_env(arguments),
        root=arguments.root,
    )


def make_env(arguments: argparse.Namespace) -> dict[str, str]:
    """Read the variables of a desk: those of the presets it is allowed, and those that are passed."""
    allowed = getattr(arguments, "allow", None)
    told: dict[str, str] = import_module("hotdesk.door.presets").preset_environment(allowed) if allowed else {}
    return {**told, **parse_env(arguments.env)}


def make_scope(arguments: argparse.Namespace) -> Scope:
    """Put a desk's way out together; where nothing asks for one there is none, and nothing more is imported."""
    rules = [*(arguments.allow or [])]
    rules += [f"deny {text}" for text in arguments.deny or []] + [f"ask {text}" for text in arguments.ask or []]
    names = parse_env(arguments.map, "--map", "HOST:PORT")
    if not rules and not arguments.grant and not names:
        return CLOSED
    scope: Scope = import_module("hotdesk.door.scope").scope_of(
        rules, arguments.grant or [], names, not arguments.no_ask
    )
    return scope
