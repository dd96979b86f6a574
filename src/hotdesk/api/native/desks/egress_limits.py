"""Limit where a client's desks may connect: this machine and its networks only with the operator's consent."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_network

from hotdesk.brief.data import Rule
from hotdesk.brief.rules import rule_text
from hotdesk.door.policy.address import METADATA, SPECIAL
from hotdesk.door.policy.presets import PRESETS, get_preset_rules, read_machine
from hotdesk.errors import BriefError


def require_public(rules: Iterable[Rule]) -> None:
    """Refuse rules for private networks, this machine or cloud metadata services; package presets are exempt."""
    for rule in rules:
        near = rule.verdict != "deny" and (rule.private or is_near(rule.host))
        if near and replace(rule, private=True) not in _list_package_sources():
            raise BriefError(
                f"the host of the rule {rule_text(rule)!r} is not a public internet host; only this server's operator "
                "can allow it, with `[door] names`"
            )


def _list_package_sources() -> set[Rule]:
    """Return this machine's own package sources: its operator chose them, even on a private network."""
    found: set[Rule] = set()
    for name in PRESETS:
        with suppress(BriefError):
            found.update(replace(rule, private=True) for rule in get_preset_rules(name, read_machine(name)))
    return found


def is_near(host: str) -> bool:
    """Return whether an address or network is not public; a host name is checked when it is dialled."""
    try:
        found = ip_network(host.strip("[]"), strict=False)
    except ValueError:
        return False
    near = any(special.version == found.version and special.overlaps(found) for special, _ in SPECIAL)
    return near or any(each.version == found.version and each in found for each in METADATA)
