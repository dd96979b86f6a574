"""Copy recordings into the repository: without pictures, and with instructions and tools only where they change.

python tools/keep_recording.py FILE… FOLDER

A recording repeats the instructions and all tools in every request, and has every picture in base64. A replay needs
only the replies; the rest is kept so that people can read the requests. The conversations of a swarm's items, which ran
at the same time, follow one another.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

REPEATED = {"system": "", "tools": []}
"""Replaces values that are the same as in the request before."""


def main() -> int:
    """Copy the files that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for file in options.files:
        target = options.folder / file.name
        target.write_text(shorten(file.read_text(encoding="utf-8")), encoding="utf-8")
        if (note := file.with_suffix(".json")).exists():
            shutil.copy(note, options.folder)
        print(f"{target}: {target.stat().st_size:,} of {file.stat().st_size:,} bytes")
    return 0


def shorten(text: str) -> str:
    """Return the lines of a recording, shortened."""
    before: dict[str, Any] = {}
    lines = []
    for line in sorted(map(json.loads, text.split("\n")[:-1]), key=lambda line: str(line.get("part", ""))):
        if request := line.get("request"):
            now = {key: request[key] for key in REPEATED}
            request.update({key: empty for key, empty in REPEATED.items() if now[key] == before.get(key)})
            request["history"] = [without_pictures(item) for item in request["history"]]
            before = now
        lines.append(json.dumps(line, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)


def without_pictures(value: Any) -> Any:
    """Return a part of a history without the data of its pictures."""
    if isinstance(value, dict):
        return {key: "" if key == "image" else without_pictures(each) for key, each in value.items()}
    return [without_pictures(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
