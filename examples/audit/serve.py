"""`make serve-demo`: run the audit from a browser, with an ERP and `hotdesk serve` in a temporary state directory.

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
from examples.audit.run import prepare, print_status
from examples.audit.truth import Truth

from hotdesk import config
from hotdesk.api.keys import ApiKeys

HERE = Path(__file__).absolute().parent
NAME = "audit"
COUNT = 60
"""Invoices by default: about a minute of work."""


def main() -> int:
    """Generate invoices, start ERP and server, and print how to sign in; remove the state at the end."""
    options = parse_arguments()
    out: Path = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    prepare(out, options.seed if options.seed is not None else random.SystemRandom().randrange(10**6), options.count)
    room = Room.create(out)
    try:
        with room.serve(Truth.load(out).books.orders):
            install(out, room.home / "lib")
            key = ApiKeys(room.home / "lib/serve").make("demo")
            return serve(room, key, options.port)
    finally:
        room.clear()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve the audit of invoices to a browser, with the ERP it needs.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/serve"), help="the folder for inputs and results (out/serve)"
    )
    parser.add_argument("--seed", type=int, help="generate the invoices of an earlier run (random)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many invoices ({COUNT}); 42 or more")
    parser.add_argument("--port", type=int, default=3700, help="the port on loopback (3700)")
    return parser.parse_args()


def install(out: Path, lib: Path) -> None:
    """Install the brief and its invoices as a template of the server, and the viewer for its page."""
    shutil.copytree(out / NAME, lib / "templates" / NAME)
    shutil.copy(HERE / "template.toml", lib / "templates" / NAME)
    if (viewer := config.load().lib / "viewer").is_dir():
        (lib / "viewer").symlink_to(viewer)


def serve(room: Room, key: str, port: int) -> int:
    """Run the server until it is interrupted."""
    argv = [*trial.HOTDESK, "serve", "--port", str(port)]
    with subprocess.Popen(argv, env=room.env, stderr=subprocess.PIPE, text=True) as serving:
        (room.home / "worker").write_text(str(serving.pid))
        signal.signal(signal.SIGTERM, lambda *_: serving.terminate())
        assert serving.stderr is not None
        with suppress(KeyboardInterrupt):  # the server got the signal, too, and burns its desks
            for line in serving.stderr:
                print_status(line.rstrip("\n"))
                if line.startswith("http"):
                    print_status(
                        f"Open it and sign in with this key: {key}",
                        "Choose New job, Audit invoices, Start. Ctrl-C ends it.",
                    )
                    print_status(f"Another key: sudo env HOTDESK_HOME={room.home} .venv/bin/hotdesk key new --name you")
        return serving.wait()


if __name__ == "__main__":
    sys.exit(main())
