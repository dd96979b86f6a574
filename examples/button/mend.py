"""What the worker mends with, run in its desk: takes out the one declaration that says what was measured.

python3 mend.py STYLESHEET ACROSS DOWN
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main() -> None:
    """Mend the stylesheet, or fail when nothing in it says so."""
    path, across, down = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    culprit = rf"\s*\btransform: translate\({re.escape(across)}px, {re.escape(down)}px\);"
    text, count = re.subn(culprit, "", path.read_text())
    if count != 1:
        sys.exit(f"{count} declarations shift something by {across} and {down} pixels")
    path.write_text(text)


if __name__ == "__main__":
    main()
