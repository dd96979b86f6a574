"""`hotdesk drive`: files that outlive desks, by name and version."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.parser import add_acts
from hotdesk.cli.terminal import align_columns, run_interruptible, write_all
from hotdesk.desk.image.build import require_root
from hotdesk.desk.seam import new_id
from hotdesk.drive.catalog import Version
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import check_owner, describe_actor, get_current_user
from hotdesk.drive.keep import Drive, Intent
from hotdesk.drive.names import check_name, parse_reference
from hotdesk.errors import BriefError, HostError, make_printable
from hotdesk.event import DriveChanged
from hotdesk.host import Host
from hotdesk.job.results import Out

PROGRESS_INTERVAL_S = 0.2
"""Seconds between two progress updates."""
SYSTEM = Path("/var/lib/hotdesk/drive")


def add(parser: argparse.ArgumentParser) -> None:
    for act in add_acts(parser, ACTS, ARGUMENTS):
        act.add_argument("--owner", default="", metavar="WHO", help="the user who owns the name, such as uid:1000")
        options.add_json(act)


def add_ls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prefix", nargs="?", default="", help="only names with this prefix")


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="NAME or NAME@VERSION")
    parser.add_argument(
        "to", nargs="?", help="a file or a folder; `-` is standard output (default: the current folder)"
    )
    parser.add_argument(
        "--certificate", action="store_true", help="get the file's certificate instead, as NAME.certificate.json"
    )


def _add_put(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the file to store; `-` is standard input")
    parser.add_argument("name", nargs="?", help="the name in the drive (default: the file's name)")
    parser.add_argument(
        "--reader",
        action="append",
        metavar="WHO",
        help="another user who may read all versions, such as uid:1001, or * for all users; repeatable",
    )


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="NAME for all versions, or NAME@VERSION for one")


def main(arguments: argparse.Namespace) -> int:
    """Store files by name. Each name has numbered versions; a version is never changed, and its number never reused.

    Deliverables of a job are stored as JOB/PATH. The journal records every file that is put or removed by hand.

    For example:

      hotdesk drive put prices.csv
      hotdesk drive get prices.csv@1 old.csv
      hotdesk drive ls --json | jq -r '.[].name'
    """
    if arguments.owner:
        check_owner(arguments.owner)
    arguments.main(arguments)
    return 0


def ls(arguments: argparse.Namespace) -> None:
    """List names, each with its newest version.

    hotdesk drive ls
    hotdesk drive ls reports/
    """
    if (drive := find_drive()) is None:
        show([], arguments.json)
        return
    show(
        [each for each in drive.ls(arguments.prefix, who=get_current_user()) if arguments.owner in ("", each.owner)],
        arguments.json,
    )


def history(arguments: argparse.Namespace) -> None:
    """List the versions of a name, oldest first, each with its origin.

    hotdesk drive history reports/june.xlsx
    """
    name, number = parse_reference(arguments.name)
    versions = _require_drive(name).list_history(name, who=get_current_user(), owner=arguments.owner)
    show([each for each in versions if number in (None, each.number)], arguments.json)


def get(arguments: argparse.Namespace) -> None:
    """Copy a file out of the drive, after checking its hash.

      hotdesk drive get reports/june.xlsx
      hotdesk drive get reports/june.xlsx@2 ./copies/
      hotdesk drive get prices.csv - | head
      hotdesk drive get $JOB/report.xlsx --certificate

    An existing file is replaced only if it is an unchanged copy from the drive.
    """
    name, number = parse_reference(arguments.name)
    drive = _require_drive(name)
    version = drive.get_version(name, number, who=get_current_user(), owner=arguments.owner)
    proof = drive.read_certificate(version) if arguments.certificate else None
    if arguments.to == "-":
        _to_stdout(drive, version, proof)
        return
    target = _choose_target(name if proof is None else name + SUFFIX, arguments.to)
    with Out(target.parent, [target.name]) as out:
        read = drive.blobs.read(version.sha256, version.size)
        pieces = _meter_pieces(read, version.size) if proof is None else [proof]
        path = out.copy(target.name, pieces, partial(drive.holds, who=get_current_user()))
    fields = {**as_json(version), "to": str(path)}
    print(json.dumps(fields, indent=1) if arguments.json else make_printable(str(path)))


def put(arguments: argparse.Namespace) -> None:
    """Store a file as the next version of a name.

      hotdesk drive put june.xlsx reports/june.xlsx
      hotdesk drive put prices.csv --reader uid:1001
      pg_dump shop | hotdesk drive put - backups/shop.sql

    The journal records it before the name changes.
    """
    name = check_name(arguments.name or ("" if arguments.file == "-" else Path(arguments.file).name))
    require_root("changing the machine's drive")

    def keep(drive: Drive, intent: Intent) -> list[Version]:
        owner = arguments.owner or get_current_user()
        return [drive.keep(name, Metered(file), owner=owner, readers=arguments.reader, intent=intent)]

    with source(arguments.file) as file:
        change(arguments, "put", keep)


def rm(arguments: argparse.Namespace) -> None:
    """Remove a name with all its versions, or one version of it.

      hotdesk drive rm reports/june.xlsx@2
      hotdesk drive rm reports/june.xlsx

    The journal records it, with the name, before the name changes.
    """
    name, number = parse_reference(arguments.name)
    require_root("changing the machine's drive")

    def remove(drive: Drive, intent: Intent) -> list[Version]:
        return drive.remove(name, number, who=get_current_user(), owner=arguments.owner, intent=intent)

    change(arguments, "removed", remove)


ACTS = {"ls": ls, "get": get, "put": put, "rm": rm, "history": history}
ARGUMENTS = {"ls": add_ls, "get": _add_get, "put": _add_put, "rm": _add_name, "history": _add_name}


def change(
    arguments: argparse.Namespace,
    what: Literal["put", "removed"],
    act: Callable[[Drive, Intent], list[Version]],
) -> None:
    """Change the drive; the event of each change is on disk before it."""
    settings = config.load()

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.prepare()

            def intent(version: Version) -> None:
                identity = (version.sha256, version.size, version.number)
                host.note(DriveChanged(new_id(), version.name, what, describe_actor(), *identity))

            done = act(Drive(settings.lib / "drive", settings.drive_quota), intent)
        if arguments.json:
            print(json.dumps([as_json(each) for each in done], indent=1))
        else:
            print("\n".join(make_printable(f"{what} {each.name}@{each.number}") for each in done))
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)


def find_drive() -> Drive | None:
    folder = config.load().lib / "drive"
    if folder.exists():
        return Drive(folder)
    if os.geteuid() != 0 and SYSTEM.parent.exists():
        raise HostError(f"the drive of this machine, {SYSTEM}, belongs to root; use `sudo hotdesk drive`")
    return None


def _require_drive(name: str) -> Drive:
    if (drive := find_drive()) is None:
        raise BriefError(f"{name} is not in the drive, which is still empty; `hotdesk drive put FILE` stores a file")
    return drive


@contextmanager
def source(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as e:
        raise BriefError(f"{make_printable(name)} cannot be read: {e.strerror}") from e
    with file:
        yield file


def _choose_target(name: str, to: str | None) -> Path:
    last = name.rpartition("/")[2]
    if to is None:
        return Path(last)
    return Path(to) / last if to.endswith("/") or os.path.isdir(to) else Path(to)


def _to_stdout(drive: Drive, version: Version, proof: bytes | None = None) -> None:
    """Print a file after verifying all of it, or print its certificate."""
    if proof is not None:
        write_all(1, proof)
        return
    if sys.stdout.isatty():
        raise BriefError(
            "a stored file is not printed to a terminal; give a target file, or pipe the output, such as `| less`"
        )
    for _ in drive.blobs.read(version.sha256, version.size):
        pass
    for data in drive.blobs.read(version.sha256, version.size):
        if not write_all(1, data):
            return


class Metered:
    """A file that reports the progress of reading it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.meter = file, Meter()

    def read(self, size: int, /) -> bytes:
        data = self.file.read(size)
        self.meter.tell(len(data), over=not data)
        return data

    def fileno(self) -> int:
        return self.file.fileno()


class Meter:
    """Shows on a terminal how many bytes were transferred."""

    def __init__(self, size: int = 0) -> None:
        self.of = f" of {size / 1e6:.0f}" if size else ""
        self.done, self.next = 0, time.monotonic() + PROGRESS_INTERVAL_S
        self.shown = False

    def tell(self, count: int, *, over: bool = False) -> None:
        self.done += count
        if over and self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif not over and time.monotonic() > self.next and sys.stderr.isatty():
            print(f"\r{self.done / 1e6:.0f}{self.of} MB", end="", file=sys.stderr, flush=True)
            self.shown, self.next = True, time.monotonic() + PROGRESS_INTERVAL_S


def _meter_pieces(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    meter = Meter(size)
    for piece in pieces:
        meter.tell(len(piece))
        yield piece
    meter.tell(0, over=True)


def show(versions: list[Version], as_data: bool) -> None:
    if as_data:
        print(json.dumps([as_json(each) for each in versions], indent=1))
        return
    rows = [("NAME", "VERSION", "SIZE", "WHEN", "OWNER", "JOB", "CERTIFIED", "SHA256")]
    rows += [
        (v.name, str(v.number), str(v.size), format_moment(v.at), v.owner, v.job, _format_certified(v), v.sha256[:12])
        for v in versions
    ]
    print("\n".join(align_columns(rows)))


def _format_certified(version: Version) -> str:
    return "yes" if version.certificate else "no"


def as_json(version: Version) -> dict[str, object]:
    fields = {name: getattr(version, name) for name in ("name", "number", "sha256", "size", "owner", "readers")}
    origin = {name: getattr(version, name) for name in ("job", "brief", "certificate")}
    return {**fields, "at": version.at / 1000, **origin, "path": str(version.path)}


def format_moment(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at / 1000))
