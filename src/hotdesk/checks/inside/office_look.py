"""The resident program of a clean desk with an office suite: imports everything once, then serves inspections."""

from __future__ import annotations

import sys

import active_look  # type: ignore[import-not-found]
import office  # type: ignore[import-not-found]
import opening  # type: ignore[import-not-found]  # noqa: F401 - imported before it is needed
import resident  # type: ignore[import-not-found]
import xlsx_look  # type: ignore[import-not-found]

ANSWERS = {"active_look": active_look.main, "xlsx_look": xlsx_look.main}

if __name__ == "__main__":
    office.prepare_drawing()
    resident.stay(ANSWERS)
    ANSWERS[sys.argv[3]]()
