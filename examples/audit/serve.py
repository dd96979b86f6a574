"""`make serve-demo`: the audit from a browser. An ERP and `hotdesk serve` run, in a state directory of their own.

sudo .venv/bin/python examples/audit/serve.py [--seed N] [--count N] [--out FOLDER] [--port N]
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).absolute().parents[2]))

from examples import trial
from examples.audit.room import Room
from examples.audit.run import prepare, say
from examples.audit.truth import Truth

from hotdesk import config
from hotdesk.api.keys import ApiKeys

HERE = Path(__file__).absolute().parent
NAME = "audit"
FEW = 60
"""Invoices, unless told otherwise: a minute or so of work."""


def main() -> int:
    """Make invoices, start the ERP and a server, and say how to get in; in the end nothing is left but the truth."""
    told = arguments()
    out: Path = told.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    prepare(out, told.seed if told.seed is not None else random.SystemRandom().randrange(10**6), told.count)
    room = Room.new(out)
    try:
        with room.serving(Truth.load(out).books.orders):
            install(out, room.home / "lib")
            key = ApiKeys(room.home / "lib/serve").make("demo")
            return serve(room, key, told.port)
    finally:
        room.clear()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Serve the audit of invoices to a browser, with the ERP it needs.")
    parser.add_argument("--out", type=Path, default=Path("out/serve"), help="the folder for everything (out/serve)")
    parser.add_argument("--seed", type=int, help="make the same invoices again; chance if not said")
    parser.add_argument("--count", type=int, default=FEW, help=f"how many invoices ({FEW}); 42 or more")
    parser.add_argument("--port", type=int, default=3700, help="where to listen, on loopback (3700)")
    return parser.parse_args()


def install(out: Path, lib: Path) -> None:
    """Put the brief with its invoices where the server looks for templates; and have desks watched in the page."""
    shutil.copytree(out / NAME, lib / "templates" / NAME)
    shutil.copy(HERE / "template.toml", lib / "templates" / NAME)
    if (viewer := config.load().lib / "viewer").is_dir():
        (lib / "viewer").symlink_to(viewer)


def serve(room: Room, key: str, port: int) -> int:
    """Run the server until somebody ends it."""
    argv = [*trial.HOTDESK, "serve", "--port", str(port)]
    with subprocess.Popen(argv, env=room.env, stderr=subprocess.PIPE, text=True) as serving:
        (room.home / "worker").write_text(str(serving.pid))
        signal.signal(signal.SIGTERM, lambda *_: serving.terminate())
        assert serving.stderr is not None
        with suppress(KeyboardInterrupt):  # the server was interrupted, too: it ends with its desks
            for line in serving.stderr:
                say(line.rstrip("\n"))
                if line.startswith("http"):
                    say(f"open it and sign in with this key: {key}", "New job, Audit invoices, Start; Ctrl-C ends it")
                    say(f"another key: sudo env HOTDESK_HOME={room.home} .venv/bin/hotdesk key new --name you")
        return serving.wait()


if __name__ == "__main__":
    sys.exit(main())
