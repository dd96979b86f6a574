"""The `hotdesk` command: one module a subcommand, imported when used."""

from __future__ import annotations

import os
import sys

import cyclopts

from hotdesk.errors import HotdeskError, printable

FAILED = 125
"""Exit code for hotdesk's own failure, as `docker run` has it; a command's own codes pass through."""

app = cyclopts.App(
    name="hotdesk",
    help="A real computer for an AI worker: issued in milliseconds, sealed, and gone when the job is done.",
    help_format="plaintext",
    version_flags=["--version"],
)
app.command("hotdesk.cli.run:run", name="run", help="Run a command on a fresh desk, then burn the desk.")
app.command("hotdesk.cli.open:open_desk", name="open", help="Open a desk that stays, and print its id.")
app.command("hotdesk.cli.exec:execute", name="exec", help="Run a command on an open desk.")
app.command("hotdesk.cli.cp:cp", name="cp", help="Copy files to or from an open desk.")
app.command("hotdesk.cli.ps:ps", name="ps", help="List open desks.")
app.command("hotdesk.cli.burn:burn", name="burn", help="Burn desks: end them and everything of them.")
app.command("hotdesk.cli.image:app", name="image", help="Build, list, import and remove images.")
app.command("hotdesk.cli.gc:gc", name="gc", help="Clear away what dead processes and old images left.")
app.command("hotdesk.cli.setup:setup", name="setup", help="Set this machine up: packages, folders, images.")


def main() -> None:
    """Run the command line; errors are one line, unless `--debug` or HOTDESK_DEBUG asks for the traceback."""
    argv = sys.argv[1:]
    own = argv[: argv.index("--")] if "--" in argv else argv
    if "--debug" in own:
        argv.remove("--debug")
        os.environ["HOTDESK_DEBUG"] = "1"
    try:
        code = app(argv, result_action="return_value")
    except HotdeskError as e:
        if os.environ.get("HOTDESK_DEBUG"):
            raise
        print(f"hotdesk: {printable(str(e))}", file=sys.stderr)
        code = FAILED
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
