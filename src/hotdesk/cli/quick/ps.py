"""`hotdesk ps` for root: reads the files of every tenant's state directory."""

from __future__ import annotations

import json
import os
import sys

from hotdesk.cli.columns import align_columns
from hotdesk.cli.quick.place import DEFAULT_TENANT, Place, is_tenant, list_holders
from hotdesk.desk.records import compute_age, list_desks, list_unlisted

MIB = 1 << 20


def run(tenant: str | None, as_json: bool) -> int | None:
    """List open desks; return `None` if the tenant's name is invalid, or desks are known only from saved records."""
    place = Place()
    if not place.is_known or not (tenant is None or is_tenant(tenant)):
        return None
    saved = [tenant] if tenant is not None else _name_tenants(place.lib)
    if any(list_unlisted(_get_tenant_folder(place.run, name), _get_tenant_folder(place.lib, name)) for name in saved):
        return None
    names = [tenant] if tenant is not None else _name_tenants(place.run)
    desks = [{**facts, "tenant": name} for name in names for facts in list_desks(_get_tenant_folder(place.run, name))]
    print(format_desks(desks, as_json))
    if not as_json:
        _mention_holders(place)
    return 0


def _mention_holders(place: Place) -> None:
    """Name resident holders on standard error, since they stay for a while without a desk."""
    if pids := list_holders(place):
        listed = ", ".join(map(str, pids))
        print(
            f"hotdesk: resident holder, a background process for short commands that ends when unused: pid {listed}",
            file=sys.stderr,
        )


def _name_tenants(run: str) -> list[str]:
    try:
        found = sorted(name for name in os.listdir(f"{run}/tenants") if is_tenant(name))
    except OSError:
        found = []
    return [DEFAULT_TENANT, *(name for name in found if name != DEFAULT_TENANT)]


def _get_tenant_folder(run: str, tenant: str) -> str:
    return run if tenant == DEFAULT_TENANT else f"{run}/tenants/{tenant}"


def _describe_wall(facts: dict[str, object]) -> str:
    """Format a desk's proven wall with its platform, or a requested, unproven one in brackets."""
    proof = facts.get("proof")
    if not isinstance(proof, dict):
        return f"({facts.get('wall', '')})"
    return "/".join(str(part) for part in (proof.get("wall"), proof.get("platform")) if part)


def format_desks(desks: list[dict[str, object]], as_json: bool) -> str:
    for facts in desks:
        if not facts["kept"]:
            facts["state"] = "orphaned"
    if as_json:
        return json.dumps(desks, indent=1)
    rows = [("ID", "TENANT", "IMAGE", "WALL", "STATE", "AGE", "CPUS", "MEMORY")]
    rows += [
        (
            str(facts["id"]),
            str(facts["tenant"]),
            str(facts["image"]),
            _describe_wall(facts),
            str(facts["state"]),
            f"{compute_age(facts):.0f}s",
            str(facts.get("cpus", "")),
            f"{int(str(facts.get('memory', 0))) // MIB}M",
        )
        for facts in desks
    ]
    return "\n".join(align_columns(rows))
