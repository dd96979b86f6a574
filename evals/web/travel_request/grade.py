"""Grade the request: one was filed, with the right values, and the confirmation names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the result."""
    wanted = json.loads(Path("hidden/truth.json").read_text())["request"]
    filed = json.loads(Path("site.json").read_text())["new"]
    faults = grade_site(wanted, filed)
    try:
        confirmation = json.loads(Path("delivered/confirmation.json").read_text(encoding="utf-8-sig"))
        faults += grade_confirmation(wanted, filed, confirmation)
    except (OSError, ValueError, TypeError, AttributeError) as e:
        faults.append(f"confirmation.json cannot be read: {e!r}.")
    print(json.dumps({"passed": not faults, "faults": faults}))


def grade_site(wanted: dict[str, Any], filed: list[dict[str, Any]]) -> list[str]:
    """Compare what the site has stored."""
    if len(filed) != 1:
        return [f"The site has {len(filed)} new requests; there must be exactly one."]
    return [
        f"The request has {name} {filed[0].get(name)!r}; {value!r} is expected."
        for name, value in wanted.items()
        if plain(filed[0].get(name)) != plain(value)
    ]


def plain(value: object) -> object:
    """Return a text without differences of case and spacing."""
    return " ".join(value.lower().split()) if isinstance(value, str) else value


def grade_confirmation(wanted: dict[str, Any], filed: list[dict[str, Any]], found: dict[str, Any]) -> list[str]:
    """Compare the confirmation with the site."""
    faults = []
    if found.get("number") not in [each["number"] for each in filed]:
        faults.append(f"confirmation.json names {found.get('number')!r}, which is not the new request.")
    if plain(found.get("state")) != "submitted":
        faults.append(f"confirmation.json has the state {found.get('state')!r}; the site shows Submitted.")
    if found.get("total") != wanted["cost"]:
        faults.append(f"confirmation.json has the total {found.get('total')!r}; {wanted['cost']} is expected.")
    return faults


if __name__ == "__main__":
    main()
