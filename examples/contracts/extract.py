"""Reads one contract at a worker's desk: finds six clauses, each with the page and the sentence.

python3 extract.py CONTRACT RESULT, beside `shapes.py`
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from shapes import SHAPES, clauses, pages  # type: ignore[import-not-found]


def main() -> None:
    """Write the clauses; fail if one is missing, or found twice."""
    source, target = sys.argv[1:]
    try:
        texts = pages(source)
    except subprocess.CalledProcessError:
        sys.exit("it is no PDF that can be read")
    if not any(text.strip() for text in texts):
        sys.exit("it has no text: a scan, in which no quote can be looked up")
    found = [each for page, text in enumerate(texts, 1) for each in clauses(page, text)]
    if sorted(str(each["clause"]) for each in found) != sorted(SHAPES):
        sys.exit(f"found {[each['clause'] for each in found]}")
    Path(target).write_text(json.dumps({"clauses": found}))


if __name__ == "__main__":
    main()
