"""Write wrong totals that look right."""

from __future__ import annotations

import json
from pathlib import Path


def main() -> None:
    truth = json.loads(Path("hidden/truth.json").read_text())
    totals = {
        "off-by-one": truth["total"] + 1,
        "cancelled-counted": truth["with_cancelled"],
        "without-rate": truth["total"] // truth["rate"],
    }
    for name, total in totals.items():
        folder = Path("spoilt") / name
        folder.mkdir(parents=True)
        (folder / "total.json").write_text(json.dumps({"total": total}))


if __name__ == "__main__":
    main()
