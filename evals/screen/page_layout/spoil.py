"""Write wrong stylesheets that the grader must fail: nothing repaired, one defect left, the narrow window forgotten."""

from __future__ import annotations

import json
from pathlib import Path


def main() -> None:
    """Write spoilt/VARIANT/style.css."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    style, defects = truth["style"], truth["defects"]
    write("nothing-repaired", truth["broken"])
    for place, name in ((0, "wide-defect-left"), (2, "narrow-defect-left"), (4, "footer-left")):
        right, wrong = defects[place]
        write(name, style.replace(right, wrong))
    write("narrow-rules-removed", style.partition("@media")[0])


def write(name: str, style: str) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    Path("spoilt", name, "style.css").write_text(style)


if __name__ == "__main__":
    main()
