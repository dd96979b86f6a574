"""Grade the total."""

from __future__ import annotations

import json
from pathlib import Path


def main() -> None:
    truth = json.loads(Path("hidden/truth.json").read_text())
    total = json.loads(Path("delivered/total.json").read_text()).get("total")
    faults = [] if total == truth["total"] else [f"total.json has the total {total}, not {truth['total']}."]
    if not json.loads(Path("site.json").read_text())["answered"]:
        faults.append("The site was not asked for the rate.")
    print(json.dumps({"passed": not faults, "faults": faults}))


if __name__ == "__main__":
    main()
