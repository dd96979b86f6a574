"""`hotdesk node`: this machine as a node of a cluster, and the certificates of nodes and servers."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.cli.machine.serve import listen, require_desks
from hotdesk.cli.parser import add_acts
from hotdesk.cli.terminal import run_interruptible
from hotdesk.cluster.certificates import ANY_NODE, enroll, renew
from hotdesk.cluster.discovery import PORT
from hotdesk.config import parse_seconds
from hotdesk.errors import BriefError
from hotdesk.linux.first_process import fork_from_first_process

_DAYS = 365
_MAX_DAYS = 3650
NAME_VARIABLE = "HOTDESK_NODE_NAME"


def add(parser: argparse.ArgumentParser) -> None:
    add_acts(parser, ACTS, ARGUMENTS)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--identity", required=True, metavar="FOLDER", help="the folder that `hotdesk node enroll` wrote"
    )
    parser.add_argument(
        "--name",
        help="the name of this node; needed if `hotdesk node enroll --pool` wrote its identity "
        f"(default: ${NAME_VARIABLE})",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"the port to listen on (default: {PORT})")
    parser.add_argument(
        "--orphan-after",
        type=_parse_time,
        default=120.0,
        metavar="TIME",
        help="burn desks when their server has been disconnected for this long (default: 2m)",
    )
    parser.add_argument(
        "--drain",
        type=_parse_time,
        default=30.0,
        metavar="TIME",
        help="how long open desks may continue after a stop signal (default: 30s)",
    )


def _parse_time(text: str) -> float:
    found = parse_seconds(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a time; write for example 90s or 5m")
    return found


def _add_enroll(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the name of the node or server")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--server", action="store_true", help="enroll a server, which connects to nodes")
    kind.add_argument("--pool", action="store_true", help="enroll any number of nodes that share one identity")
    parser.add_argument(
        "--authority",
        required=True,
        metavar="FOLDER",
        help="the folder of the certificate authority; created on first use",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder to write the certificate and key to")
    parser.add_argument(
        "--renew",
        action="store_true",
        help="replace the certificate in the folder, and leave its key; a running process loads it by itself",
    )
    parser.add_argument(
        "--days", type=int, default=_DAYS, metavar="N", help=f"days until the certificate expires (default: {_DAYS})"
    )


def main(arguments: argparse.Namespace) -> int:
    """Lend this machine's desks to `hotdesk serve` on another machine, over mutual TLS.

    For example:

      hotdesk node enroll n1 --authority ~/authority --out n1
      hotdesk node enroll --server home --authority ~/authority --out home
      hotdesk node run --identity n1 --host 10.0.0.5
    """
    return int(arguments.main(arguments) or 0)


def run(arguments: argparse.Namespace) -> int:
    """Lend desks until a stop signal: the first drains the node, the second ends it at once.

    For example:

      hotdesk node run --identity /etc/hotdesk/node --host 10.0.0.5
      hotdesk node run --identity /etc/hotdesk/pool --name "$NODE" --host 0.0.0.0 --drain 5m
    """
    fork_from_first_process()
    settings = config.load()
    from hotdesk.api.node import NodeSettings, serve_node  # importing it takes a second

    if settings.pods:
        from hotdesk.api.pod_node import serve_pod_node as serve_node  # needs the extra `kube`
    else:
        require_desks(settings)
    name = arguments.name or os.environ.get(NAME_VARIABLE, "")
    node = NodeSettings(Path(arguments.identity), name, arguments.orphan_after, arguments.drain)
    node.find_name()
    listener = listen(arguments.host, arguments.port)
    host, port = listener.getsockname()[:2]
    stopping = anyio.Event()

    async def work() -> int:
        await serve_node(settings, node, listener, stopping, lambda: print(f"{host}:{port}", flush=True))
        return 0

    return run_interruptible(work, stopping.set)


def _enroll_identity(arguments: argparse.Namespace) -> int:
    """Write the certificate and key of a node or a server, signed by the cluster's authority.

    Do not copy the authority's folder to nodes or servers: its key can impersonate any of them. Renew certificates in
    time; from 30 days before the end, node and server log a warning every day.

    For example:

      hotdesk node enroll n1 --authority ~/authority --out n1
      hotdesk node enroll --pool --authority ~/authority --out pool
      hotdesk node enroll --server home --authority ~/authority --out home --days 90
      hotdesk node enroll n1 --renew --authority ~/authority --out n1
    """
    if bool(arguments.name) == arguments.pool:
        raise BriefError("pass either the name of the node or server, or --pool to enroll any number of nodes")
    if not 1 <= arguments.days <= _MAX_DAYS:
        raise BriefError(f"--days must be 1 to {_MAX_DAYS}, not {arguments.days}")
    name = ANY_NODE if arguments.pool else arguments.name
    role = "server" if arguments.server else "node"
    write = renew if arguments.renew else enroll
    write(Path(arguments.authority), role, name, Path(arguments.out), arguments.days)  # type: ignore[arg-type]
    return 0


ACTS = {"run": run, "enroll": _enroll_identity}
ARGUMENTS = {"run": _add_run, "enroll": _add_enroll}
