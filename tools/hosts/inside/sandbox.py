"""A program for E2B's SDK, as its users write them: `sandbox.py [--gone ID] [--keep]`.

One program, because importing the SDK takes half a minute in emulation.
"""

from __future__ import annotations

import sys

from e2b import Sandbox

WAIT_S = 900.0
"""Seconds for a request, most of which emulation takes."""


def main() -> None:
    """Check that a sandbox is gone, if one is named; use another, then kill it, or leave it and print its id."""
    if sys.argv[1:2] == ["--gone"]:
        running = [each.sandbox_id for each in Sandbox.list(request_timeout=WAIT_S).next_items()]
        assert sys.argv[2] not in running, f"{sys.argv[2]} still runs"
    sandbox = Sandbox.create(timeout=3600, request_timeout=WAIT_S)
    assert sandbox.commands.run("echo $((6*7))", request_timeout=WAIT_S).stdout == "42\n"
    sandbox.files.write("note.txt", "draft", request_timeout=WAIT_S)
    assert sandbox.files.read("note.txt", request_timeout=WAIT_S) == "draft"
    assert sandbox.commands.run("id -u", request_timeout=WAIT_S).stdout.strip() != "0"
    if "--keep" not in sys.argv:
        assert sandbox.kill(request_timeout=WAIT_S)
    print(sandbox.sandbox_id)


if __name__ == "__main__":
    main()
