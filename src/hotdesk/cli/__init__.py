"""The `hotdesk` command: one module a subcommand, imported when used."""

from __future__ import annotations

import os
import sys

import cyclopts

from hotdesk.errors import HotdeskError, printable

FAILED = 125
"""Exit code for hotdesk's own failure, as `docker run` has it; a command's own codes pass through."""

COMMANDS = {
    "run": ("hotdesk.cli.run:run", "Run a command on a fresh desk, then burn the desk."),
    "open": ("hotdesk.cli.open:open_desk", "Open a desk that stays, and print its id."),
    "exec": ("hotdesk.cli.exec:execute", "Run a command on an open desk."),
    "cp": ("hotdesk.cli.cp:cp", "Copy files to or from an open desk."),
    "ps": ("hotdesk.cli.ps:ps", "List open desks."),
    "burn": ("hotdesk.cli.burn:burn", "Burn desks: end them and everything of them."),
    "image": ("hotdesk.cli.image:app", "Build, list, remove and import images."),
    "setup": ("hotdesk.cli.setup:setup", "Set this machine up: packages, folders, images."),
    "gc": ("hotdesk.cli.gc:gc", "Bury orphaned desks, remove what no image uses."),
}


def make_app(listing: bool) -> cyclopts.App:
    """Give the command line. Summaries are for the list of commands; a command's own help is its docstring."""
    app = cyclopts.App(
        name="hotdesk",
        help="A real computer for an AI worker: issued in milliseconds, sealed, and gone when the job is done.",
        help_format="plaintext",
        version_flags=["--version"],
    )
    for name, (path, summary) in COMMANDS.items():
        app.command(path, name=name, **({"help": summary} if listing else {}))
    return app


def main() -> None:
    """Run the command line; errors are one line, unless `--debug` or HOTDESK_DEBUG asks for the traceback."""
    argv = sys.argv[1:]
    own = argv[: argv.index("--")] if "--" in argv else argv
    if "--debug" in own:
        argv.remove("--debug")
        os.environ["HOTDESK_DEBUG"] = "1"
    try:
        code = make_app(not argv or argv[0].startswith("-"))(argv, result_action="return_value")
    except HotdeskError as e:
        if os.environ.get("HOTDESK_DEBUG"):
            raise
        print(f"hotdesk: {printable(str(e))}", file=sys.stderr)
        code = FAILED
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
