"""`hotdesk ps`: open desks."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import anyio

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.terminal import aligned
from hotdesk.config import MIB, Config
from hotdesk.desk import state
from hotdesk.desk.remote import NotAdmitted, remote_runtime
from hotdesk.errors import HostError
from hotdesk.host import server


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    options.add_json(parser)


def find_desks(settings: Config) -> list[dict[str, Any]]:
    """List the desks of this state directory; an ordinary user's are a server's, if there is one."""
    if os.geteuid() == 0:
        return state.desks(settings)

    async def ask() -> list[dict[str, Any]]:
        async with remote_runtime(server(settings)) as runtime:
            items: list[dict[str, Any]] = (await runtime.call("GET", "/desks"))["items"]  # type: ignore[assignment]
            return items

    try:
        return anyio.run(ask)
    except NotAdmitted:
        raise
    except HostError:
        return []


def main(arguments: argparse.Namespace) -> int:
    """List open desks. One whose keeper was killed is `orphaned`; the next command that opens a desk buries it.

    For example:

      hotdesk ps
      hotdesk ps --json | jq -r '.[].id'
    """
    desks = find_desks(config.load())
    for told in desks:
        if not told["kept"]:
            told["state"] = "orphaned"
    if arguments.json:
        print(json.dumps(desks, indent=1))
        return 0
    rows = [("ID", "IMAGE", "STATE", "AGE", "CPUS", "MEMORY")]
    rows += [
        (
            str(told["id"]),
            str(told["image"]),
            str(told["state"]),
            f"{state.age(told):.0f}s",
            str(told.get("cpus", "")),
            f"{int(str(told.get('memory', 0))) // MIB}M",
        )
        for told in desks
    ]
    print("\n".join(aligned(rows)))
    return 0
