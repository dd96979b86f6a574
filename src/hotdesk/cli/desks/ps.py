"""`hotdesk ps`: list open desks."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import anyio

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.quick.ps import format_desks
from hotdesk.config import DEFAULT_TENANT, Config, get_tenant_settings, list_tenants
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.remote import NotAdmittedError, remote_runtime
from hotdesk.errors import HostError, make_printable
from hotdesk.host import find_server


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help="show only this tenant's desks (for root only; default: all tenants)")
    options.add_json(parser)


def find_desks(settings: Config) -> list[dict[str, Any]]:
    """List the desks of this state directory, or a server's desks of an ordinary user."""
    if os.geteuid() == 0:
        return state.list_own_desks(settings)

    async def ask() -> list[dict[str, Any]]:
        async with remote_runtime(find_server(settings)) as runtime:
            items: list[dict[str, Any]] = (await runtime.call("GET", "/desks"))["items"]  # type: ignore[assignment]
            return items

    try:
        return anyio.run(ask)
    except NotAdmittedError:
        raise
    except HostError as e:
        print(f"hotdesk: cannot list the desks: {make_printable(str(e))}", file=sys.stderr)
        return []


def find_all_desks(settings: Config, tenant: str | None = None) -> list[dict[str, Any]]:
    """List the desks of every tenant, or of one, with the tenant; an ordinary user gets their own."""
    if os.geteuid() != 0:
        return [{**facts, "tenant": DEFAULT_TENANT} for facts in find_desks(settings)]
    names = [tenant] if tenant is not None else list_tenants(settings)
    return [
        {**facts, "tenant": name}
        for name in names
        for facts in state.list_own_desks(get_tenant_settings(settings, name))
    ]


def main(arguments: argparse.Namespace) -> int:
    """List open desks. A desk whose keeper was killed is `orphaned`; the next command that opens a desk removes it.

    For example:

      hotdesk ps
      hotdesk ps --tenant acme
      hotdesk ps --json | jq -r '.[].id'
    """
    print(format_desks(find_all_desks(config.load(), arguments.tenant), arguments.json))
    return 0
