"""Packages as a tool: pip, npm and apt inside a desk, with short results."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import BriefError, make_printable
from hotdesk.hands.file_view import fit_lines
from hotdesk.hands.output import make_readable
from hotdesk.tool import Arguments, Observation, Parameter, Tool, get_text, get_texts

TIMEOUT_S = 600.0
OUTPUT = 4 << 20
SHAPES = {
    "pip": re.compile(
        r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9,._-]+\])?"
        r"(?:(?:===?|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+(?:,(?:===?|~=|!=|<=?|>=?)[A-Za-z0-9.*+!_-]+)*)?"
    ),
    "npm": re.compile(r"(?:@[a-z0-9_][a-z0-9._-]*/)?[a-z0-9_][a-z0-9._-]*(?:@[A-Za-z0-9^~<>=*][A-Za-z0-9.*+_-]*)?"),
    "apt": re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9]+)?(?:=[A-Za-z0-9.+:~-]+)?"),
}
"""The form of a package name: never an option, a URL or a path."""
NAMES = {"pip": "six or pandas>=2,<3", "npm": "left-pad or @types/node@20", "apt": "figlet or curl=8.*"}
PRESETS = {"pip": "pypi", "npm": "npm", "apt": "debian"}
ACTIONS = {"pip": ("install", "list", "remove"), "npm": ("install", "list", "remove"), "apt": ("install", "list")}
PIP = ("python3", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", "--retries=2")
NPM = ("npm", "--no-audit", "--no-fund", "--no-update-notifier", "--no-color")
APT = ("apt-get", "--quiet", "--yes", "-o", "APT::Color=0")
COMMANDS: dict[tuple[str, str], Sequence[str]] = {
    ("pip", "install"): (*PIP, "install", "--user", "--no-warn-script-location", "--"),
    ("pip", "list"): (*PIP, "list", "--format=freeze"),
    ("pip", "remove"): (*PIP, "uninstall", "--yes", "--"),
    ("npm", "install"): (*NPM, "install", "--"),
    ("npm", "list"): (*NPM, "list", "--depth=0"),
    ("npm", "remove"): (*NPM, "uninstall", "--"),
    ("apt", "install"): (*APT, "install", "--no-install-recommends", "--"),
    ("apt", "list"): ("dpkg-query", "--show", "--showformat=${Package} ${Version}\n"),
}
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
REFUSED = re.compile(r"hotdesk refuses ([A-Za-z0-9.:\[\]-]{1,255})")
FORBIDDEN = re.compile(r"https?://([A-Za-z0-9.-]{1,255})(?::\d{1,5})?/\S{0,300}\s{1,3}403\s")
"""Every part is bounded: the output of a hostile package manager could otherwise take very long to search."""
CLOSED = re.compile(
    r"name resolution|resolve host|resolving|Network is unreachable|Connection refused|Cannot connect to proxy|"
    r"NewConnectionError|Could not connect|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|has-no-egress",
    re.IGNORECASE,
)
INSTALLED = re.compile(
    r"^Successfully installed (.+)$|^(Setting up .+?) \.\.\.$|^((?:added|changed|removed|up to date).*)$", re.M
)
READ = 100_000
"""Characters of an output that are searched."""
_SHOWN_LINES = 15
"""Lines of a failed command's output that are shown."""

PACKAGES = Tool(
    "packages",
    "Install, list or remove packages: pip for the user's Python, npm into ~/node_modules, apt for the whole desk "
    "(install and list only, and only if the desk has root). Installing needs a network rule that admits the package "
    "source.",
    (
        Parameter("manager", "text", "the package manager", required=True, choices=tuple(SHAPES)),
        Parameter("action", "text", "what to do", default="install", choices=("install", "list", "remove")),
        Parameter("names", "texts", "package names, optionally with a version: six==1.17.0", longest=200, items=50),
    ),
    {"manager": "pip", "action": "install", "names": ["six", "pandas>=2,<3"]},
)


class Packages:
    tools = (PACKAGES,)

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        manager, action = get_text(arguments, "manager"), get_text(arguments, "action") or "install"
        names = get_texts(arguments, "names")
        check(manager, action, names)
        try:
            done = await self.run(manager, action, names)
        except BriefError as e:
            return Observation(f"apt needs a desk with root, and this one has none: {make_printable(str(e))}", ok=False)
        if done.exit_code == 127:
            return Observation(f"{manager} is not installed at this desk.", ok=False)
        if done.timed_out:
            return Observation(f"{manager} took more than {TIMEOUT_S:.0f} seconds and was killed.", ok=False)
        if not done.ok:
            return Observation(explain_failure(manager, done), ok=False)
        return Observation(_format_installed(done.text) if action == "list" else describe_changes(done.text))

    async def run(self, manager: str, action: str, names: Sequence[str]) -> Done:
        """Run the manager; for an installation with apt, update its package lists first, and run as root."""
        user = "root" if (manager, action) == ("apt", "install") else None
        if user:
            update = await self.desk.run([*APT, "update", "--error-on=any"], user=user, env=QUIET, timeout=TIMEOUT_S)
            if not update.ok:
                return update
        argv = [*COMMANDS[manager, action], *names]
        return await self.desk.run(argv, user=user, env=QUIET, timeout=TIMEOUT_S, output_limit=OUTPUT)


def check(manager: str, action: str, names: Sequence[str]) -> None:
    if action not in ACTIONS[manager]:
        raise PACKAGES.refuse(f"{manager} can only {' or '.join(ACTIONS[manager])} here")
    if action == "list" and names:
        raise PACKAGES.refuse("the action `list` takes no names; leave `names` empty")
    if action != "list" and not names:
        raise PACKAGES.refuse(f"`names` is missing: list the packages to {action}")
    for name in names:
        if not SHAPES[manager].fullmatch(name):
            shown = make_printable(name)[:60]
            raise PACKAGES.refuse(
                f"`names` contains `{shown}`, which is not a package name for {manager}; write it like {NAMES[manager]}"
            )


def _format_installed(text: str) -> str:
    shown, omitted = fit_lines(make_readable(text[:READ]).splitlines())
    return f"{shown}\n… {omitted:,} more" if omitted else shown or "Nothing is installed."


def describe_changes(text: str) -> str:
    output = make_readable(text[-READ:])
    found = [next(filter(None, match)) for match in INSTALLED.findall(output)]
    lines = found or [line for line in output.splitlines() if line.strip()][-_SHOWN_LINES:]
    return fit_lines(list(dict.fromkeys(lines)))[0] or "Done."


def explain_failure(manager: str, done: Done) -> str:
    """Explain the failure: what the door refused and how to allow it, and the end of the output."""
    output = make_readable(done.text[-READ:] + "\n" + done.stderr.decode("utf-8", "replace")[-READ:])
    lines = [line for line in output.splitlines() if line.strip() and "Retrying" not in line][-_SHOWN_LINES:]
    preset = PRESETS[manager]
    hosts = list(dict.fromkeys([*REFUSED.findall(output), *FORBIDDEN.findall(output)]))[:5]
    remedy = ""
    if hosts:
        remedy = (
            f"No network rule admits {', '.join(hosts)}. The preset `{preset}` (`--allow {preset}`) admits the sources "
            f"that {manager} uses on this machine; any other host needs a rule: `--allow 'read HOST'`. See "
            "http://door.local/ for what is admitted and how to ask for more.\n"
        )
    elif CLOSED.search(output):
        remedy = f"No package source can be reached: the desk was opened without `--allow {preset}`.\n"
    return f"{remedy}{manager} ended with exit code {done.exit_code}:\n" + fit_lines(lines)[0]
