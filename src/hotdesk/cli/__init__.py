"""The `hotdesk` command: one module per subcommand, imported on use.

A module has `add`, which adds its arguments to a parser, and `main`, which does the work and returns the exit code.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from hotdesk import __version__
from hotdesk.cli import quick
from hotdesk.cli.quick.streams import FAILED as FAILED
from hotdesk.errors import BriefError, HostError, HotdeskError, explain_extra, make_printable

EXTRAS = {
    "serve": {
        "fastapi", "h2", "httptools", "mcp", "mcp_types", "multipart", "pydantic", "pydantic_core", "python_multipart",
        "sse_starlette", "starlette", "uvicorn",
    },
    "models": {"anthropic", "genai_prices", "httpx", "openai"},
    "telemetry": {"opentelemetry"},
    "kube": {"aiohttp", "kubernetes"},
}  # fmt: skip
"""Modules that are installed only with an extra, by extra."""
GROUPS = {
    "Jobs, from a brief to a result": {
        "brief": "Check a brief, or create one from a template.",
        "work": "Carry out a brief: plan, approve, work, check, store the result, burn the desk.",
        "swarm": "Carry out a brief for many items, each at its own desk.",
        "jobs": "List jobs and their state.",
        "show": "Show a job: plan, steps, approvals, network requests, results.",
        "report": "Write a job's report as one HTML file.",
        "approve": "Approve a request of a desk or job; without an id, list pending requests.",
        "refuse": "Refuse a request of a desk or job.",
        "answer": "Answer a question of a job.",
        "resume": "Resume paused desks, or a job that stopped or was killed.",
        "replay": "Repeat a job's recorded plan and tool calls at a new desk, without a model.",
        "eval": "Run evaluation tasks with hidden graders and report the pass rate.",
        "forget": "Delete a job's stored data; its journal entries and its files in the drive stay.",
        "verify": "Check a file against its certificate, and show what was checked.",
        "drive": "List, get, put and remove files that outlive desks.",
        "memory": "Show and remove facts and files that workers stored for later jobs.",
    },
    "Desks": {
        "run": "Run a command on a new desk, then burn the desk.",
        "open": "Open a desk that stays open, and print its id.",
        "exec": "Run a command on an open desk.",
        "shell": "Open a terminal at a desk.",
        "cp": "Copy files to or from an open desk.",
        "ssh": "Sign in to a desk with OpenSSH: ssh, scp, sftp, rsync, port forwarding.",
        "forward": "Forward a port of a desk to this machine.",
        "use": "Call one of a worker's tools at a desk: browser, screen, shell, files.",
        "watch": "Watch a desk's screen in a web page, and take control.",
        "ps": "List open desks.",
        "usage": "Show the resource usage of open desks.",
        "pause": "Pause desks: freeze their programs.",
        "snapshot": "Take a snapshot of a desk's files.",
        "rollback": "Roll a desk's files back to a snapshot.",
        "fork": "Open copies of an open desk, with its files.",
        "burn": "Burn desks: end them and destroy everything in them.",
    },
    "This machine and its server": {
        "vault": "Store secrets by name; desks never see them.",
        "mcp": "Run an MCP server on standard input and output that gives its client a desk.",
        "key": "Create, list and revoke a server's keys; show the certificate signer.",
        "serve": "Run the server for desks and jobs: E2B's API, MCP, an HTTP API and a web page.",
        "node": "Lend this machine's desks to a server on another machine; enroll nodes and servers.",
        "image": "Build, save, list, remove, import and export images.",
        "journal": "Read the journal, and verify that it is complete.",
        "door": "Read the log of the door: every network request.",
        "setup": "Set this machine up: packages, folders, images.",
        "doctor": "Test whether desks are isolated on this machine, measure by measure.",
        "completion": "Print the completion script of a shell, or the manual page.",
        "gc": "Remove orphaned desks, unused image layers and old jobs.",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
PACKAGES = dict(zip(GROUPS, ("jobs", "desks", "machine"), strict=True))
"""Package of each group's modules."""


def _format_overview() -> str:
    lines = ["Usage: hotdesk COMMAND [OPTIONS]", "", ABOUT]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:10} {summary}" for name, summary in group.items())]
    return "\n".join([*lines, "", "Run `hotdesk COMMAND --help` for details. --version prints the version."])


ABOUT = "Disposable, isolated Linux computers (desks) for AI workers: opened in milliseconds, destroyed after use."


def carry_out(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_format_overview())
        return 0
    if argv[0] == "--version":
        print(f"hotdesk {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        from hotdesk.cli.suggest import format_suggestion

        meant = format_suggestion(argv[0], COMMANDS)
        raise BriefError(f"unknown command {argv[0]!r}{meant or '; `hotdesk --help` lists the commands'}")
    own = _cut_at_dashes(argv[1:])
    if argv[0] in ("run", "work", "swarm") and len(argv) > 1 and not set(own) & {"-h", "--help"}:
        from hotdesk.cli import prestart

        if argv[0] == "swarm":
            prestart.yield_to_tenants()
        prestart.begin(keys=argv[0] != "run")
    try:
        from hotdesk.cli.parser import parse

        gc.disable()  # importing creates no garbage
        try:
            module = import_module(get_module_name(argv[0]))
        finally:
            gc.enable()
        if os.geteuid() != 0 and not set(own) & {"-h", "--help"}:
            from hotdesk.cli.ordinary import note_own_state

            note_own_state(argv[0])
        return int(module.main(parse(argv[0], module, argv[1:])))
    except ModuleNotFoundError as e:
        extra = find_extra(e.name or "")
        if extra is None:
            raise
        raise HostError(f"`hotdesk {argv[0]}` needs Python packages that are missing; {explain_extra(extra)}") from e


def _format_error(error: HotdeskError) -> list[str]:
    """Return an error as lines for a terminal: one, or one for each fault of a brief."""
    if not isinstance(error, BriefError) or not error.faults:
        return [f"hotdesk: {make_printable(str(error))}"]
    begin = str(error).partition(": (1) ")[0]
    return [f"hotdesk: {make_printable(begin)}", *(f"  {make_printable(each)}" for each in error.faults)]


def get_module_name(command: str) -> str:
    [package] = [PACKAGES[title] for title, group in GROUPS.items() if command in group]
    return f"hotdesk.cli.{package}.{command}"


def find_extra(module: str) -> str | None:
    """Return the extra that installs a module, or `None` if no extra does."""
    package = module.partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def _cut_at_dashes(argv: list[str]) -> list[str]:
    return argv[: argv.index("--")] if "--" in argv else argv


def main() -> None:
    """Run the command line; errors are one line, unless `--debug` or HOTDESK_DEBUG asks for the traceback."""
    if "--debug" in _cut_at_dashes(sys.argv[1:]):
        os.environ["HOTDESK_DEBUG"] = "1"
    try:
        code = quick.attempt(sys.argv[1:])
        if code is None:
            code = carry_out(sys.argv[1:])
    except HotdeskError as e:
        if os.environ.get("HOTDESK_DEBUG"):
            from traceback import format_exc

            trace = format_exc()
            print("\n".join(map(make_printable, trace.splitlines())), file=sys.stderr)
        print("\n".join(_format_error(e)), file=sys.stderr)
        code = FAILED
    except OSError as e:
        if os.environ.get("HOTDESK_DEBUG"):
            raise
        code = FAILED
        try:
            print(f"hotdesk: {make_printable(str(e))}", file=sys.stderr)
        except OSError:
            pass  # no reader is left
    except KeyboardInterrupt:
        code = 130
    gc.freeze()  # a last collection of everything at exit would take 50 ms
    sys.exit(code)
