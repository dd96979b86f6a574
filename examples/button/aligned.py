"""A custom check for this brief: is every button in its place when the page is rendered with this stylesheet?

python3 aligned.py STYLESHEET < GIVEN, in a clean desk beside the page; prints faults, passed claims and measurements.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

BROWSER = ["chromium", "--headless", "--hide-scrollbars", "--window-size=1280,800", "--user-data-dir=profile"]


def main() -> None:
    """Render the page, measure the buttons, and print the findings."""
    given = json.load(sys.stdin)
    shutil.copy(sys.argv[1], "beside/page/style.css")
    page = Path("beside/page/index.html").absolute().as_uri()
    subprocess.run([*BROWSER, "--screenshot=drawn.png", page], stderr=subprocess.DEVNULL, timeout=60, check=True)
    said = subprocess.run(["python3", "-B", "beside/measure.py", "drawn.png"], capture_output=True, check=True).stdout
    places = json.loads(said)
    faults = [
        {"where": f"button {number}", "expected": "in its place", "found": f"{across:+d} across, {down:+d} down"}
        for number, (across, down) in enumerate(places, 1)
        if (across, down) != (0, 0)
    ]
    if len(places) != given["buttons"]:
        faults.append({"where": "", "expected": f"{given['buttons']} buttons", "found": str(len(places))})
    held = [] if faults else [f"{len(places)} buttons, each in its place in its card"]
    print(json.dumps({"faults": faults, "held": held, "values": {"buttons": len(places)}}))


if __name__ == "__main__":
    main()
