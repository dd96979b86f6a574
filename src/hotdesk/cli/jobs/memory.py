"""`hotdesk memory`: show and remove what workers stored for later jobs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.jobs.decision import get_journal_path
from hotdesk.cli.jobs.drive import find_drive, format_moment
from hotdesk.cli.parser import add_acts
from hotdesk.cli.terminal import align_columns, run_interruptible
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.build import require_root
from hotdesk.desk.seam import new_id
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import describe_actor, get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MAX_AGE_DAYS, MemoryItem, MemoryStore, check_memory_name
from hotdesk.drive.memory_origin import MemoryOrigin, read_origin
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import DriveChanged
from hotdesk.host import Host

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """The size of one memory."""

    memory: str
    facts: int
    files: int
    bytes: int
    newest: float
    """Time of the newest item in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ItemReport:
    """An item, its origin, and the text if it is a fact."""

    item: MemoryItem
    origin: MemoryOrigin
    text: str

    def as_json(self) -> dict[str, object]:
        version = self.item.version
        return {
            "memory": self.item.memory,
            "kind": self.item.kind,
            "name": self.item.name,
            "text": self.text,
            "size": version.size,
            "sha256": version.sha256,
            "at": version.at / 1000,
            "until": version.at / 1000 + MAX_AGE_DAYS * DAY_S,
            "job": version.job,
            "brief": version.brief,
            "step": self.origin.step,
            "sources": list(self.origin.sources),
            "drive": self.item.reference,
        }

    def format_lines(self) -> list[str]:
        version, origin = self.item.version, self.origin
        sources = ", ".join(origin.sources) or "unknown sources"
        return [
            f"{self.item.kind} {self.item.name}, {version.size:,} bytes, sha256 {version.sha256}",
            f"  stored by step {origin.step or 'unknown'} of job {version.job}, {format_moment(version.at)}",
            f"  after reading: {sources}",
            *([f"  > {self.text}"] if self.item.kind == "fact" else [f"  hotdesk drive get {self.item.reference}"]),
        ]


def add(parser: argparse.ArgumentParser) -> None:
    for act in add_acts(parser, ACTS, ARGUMENTS):
        options.add_json(act)


def _add_ls(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory", help="the memory's name, as given by the field `memory` of a brief")
    parser.add_argument("item", nargs="?", default="", help="show only this fact or file (default: all)")


def _add_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory", help="the memory's name, as given by the field `memory` of a brief")
    parser.add_argument("item", nargs="?", default="", help="the fact or file to remove (default: the whole memory)")


def main(arguments: argparse.Namespace) -> int:
    """Show and remove what workers stored for later jobs: facts and files, by the `memory` of their brief.

    The content of a memory is unchecked. Later jobs get it as data, and never at a desk that has a secret.

    For example:

      hotdesk memory ls
      hotdesk memory show invoices
      hotdesk memory rm invoices parse.py
      hotdesk memory show invoices --json | jq -r '.[].sources[]'
    """
    arguments.main(arguments)
    return 0


def ls(arguments: argparse.Namespace) -> None:
    """List memories, and how much is in each.

    hotdesk memory ls
    hotdesk memory ls --json
    """
    drive = find_drive()
    items = MemoryStore(drive, get_current_user()).list_items() if drive is not None else []
    names = sorted({item.memory for item in items})
    found = [summarize([item for item in items if item.memory == name]) for name in names]
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    rows = [("MEMORY", "FACTS", "FILES", "BYTES", "NEWEST")]
    rows += [
        (each.memory, str(each.facts), str(each.files), str(each.bytes), format_moment(int(each.newest * 1000)))
        for each in found
    ]
    print("\n".join(align_columns(rows)))


def summarize(items: list[MemoryItem]) -> MemorySummary:
    return MemorySummary(
        items[0].memory,
        sum(item.kind == "fact" for item in items),
        sum(item.kind == "file" for item in items),
        sum(item.version.size for item in items),
        max(item.version.at for item in items) / 1000,
    )


def show(arguments: argparse.Namespace) -> None:
    """Show the facts and files in a memory, which job stored each, and what that job had read.

    hotdesk memory show invoices
    hotdesk memory show invoices parse.py --json
    """
    store, items = _find_items(arguments)
    journal = get_journal_path(config.load())
    reports = [ItemReport(each, read_origin(journal, each), store.read_fact(each)) for each in items]
    if arguments.json:
        print(json.dumps([each.as_json() for each in reports], indent=1))
    else:
        print("\n".join(make_printable(line) for each in reports for line in each.format_lines()))


def rm(arguments: argparse.Namespace) -> None:
    """Remove a fact or file from a memory, or the whole memory.

      hotdesk memory rm invoices parse.py
      hotdesk memory rm invoices

    The journal records it first. A job that is already running keeps its copy.
    """
    require_root("removing what workers stored in a memory")
    settings = config.load()
    _, items = _find_items(arguments)

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.prepare()

            def intent(version: Version) -> None:
                identity = (version.sha256, version.size, version.number)
                host.note(DriveChanged(new_id(), version.name, "removed", describe_actor(), *identity))

            store = MemoryStore(Drive(settings.lib / "drive", settings.drive_quota), get_current_user())
            for item in items:
                store.remove_item(item, intent)
        if arguments.json:
            print(json.dumps([item.reference for item in items], indent=1))
        else:
            print("\n".join(f"removed {item.kind} {item.name} from the memory {item.memory}" for item in items))
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)


def _find_items(arguments: argparse.Namespace) -> tuple[MemoryStore, list[MemoryItem]]:
    """Return the named items; raise `BriefError` if there are none."""
    name, drive = check_memory_name(arguments.memory), find_drive()
    if drive is None:
        raise BriefError(
            f"There is no memory {name}: no job on this machine has stored facts or files for later jobs yet."
        )
    store = MemoryStore(drive, get_current_user())
    items = [each for each in store.list_items(name) if arguments.item in ("", each.name)]
    if not items:
        what = (
            f"no fact or file {make_printable(arguments.item[:80])!r} in the memory {name}"
            if arguments.item
            else f"no memory {name}"
        )
        raise BriefError(
            f"There is {what}; `hotdesk memory ls` lists memories, `hotdesk memory show NAME` the contents of one."
        )
    return store, items


ACTS = {"ls": ls, "show": show, "rm": rm}
ARGUMENTS = {"ls": _add_ls, "show": _add_show, "rm": _add_rm}
