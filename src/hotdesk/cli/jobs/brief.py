"""`hotdesk brief`: check a brief and show what it means, or create one from a template."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from hotdesk import config
from hotdesk.brief import parse_rule
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.load import find_brief, read_job
from hotdesk.brief.routing import route_brief
from hotdesk.checks import find
from hotdesk.checks.required import list_checks
from hotdesk.cli import options
from hotdesk.cli.brief_summary import as_json, format_brief
from hotdesk.cli.brief_warnings import (
    list_archive_warnings,
    list_image_warnings,
    list_input_warnings,
    list_rule_warnings,
    warn,
)
from hotdesk.cli.parser import add_acts
from hotdesk.cli.shipped import find_shipped_file
from hotdesk.cli.terminal import align_columns
from hotdesk.config import Config
from hotdesk.desk.wall.registry import survey
from hotdesk.door.policy.policy import find_beyond_ceiling
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError, make_printable


def add(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=None)
    parser.epilog = f"Every field of a brief is explained in {find_shipped_file('brief.md')}"
    add_acts(parser, ACTS, ARGUMENTS)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("brief", type=Path, help="a TOML or JSON file, or a folder with brief.toml or brief.json")
    options.add_json(parser)


def add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("template", nargs="?", help="a template's name (default: list the templates)")
    parser.add_argument("folder", nargs="?", type=Path, help="the folder to create (default: the template's name)")


def main(arguments: argparse.Namespace) -> int:
    """Check a brief before a job starts, or create one from a template.

    A brief states a job's goal, deliverables and limits.

    For example:

      hotdesk brief new report
      hotdesk brief check report
      hotdesk work report
    """
    arguments.main(arguments)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """Check a brief against its format and the operator's ceiling, and show what it means. Nothing is started.

    Exit code 0 means that it can be carried out as shown, 125 that it cannot; then the line, the reason and
    the remedy are on standard error. Limits that the brief does not set are shown with their default.

      hotdesk brief check brief.toml
      hotdesk brief check examples/invoices-small
      hotdesk brief check brief.json --json | jq .budget
    """
    settings = config.load()
    job = _load_checked_brief(arguments.brief, settings)
    warn(
        [
            *list_input_warnings(job),
            *list_archive_warnings(job),
            *list_rule_warnings(job, settings),
            *list_image_warnings(job, settings),
        ]
    )
    print(json.dumps(as_json(job), indent=1) if arguments.json else "\n".join(format_brief(job)))


def new(arguments: argparse.Namespace) -> None:
    """Create a brief from a template, in a new folder.

    hotdesk brief new
    hotdesk brief new report
    hotdesk brief new web ./portal
    """
    if arguments.template is None:
        print("\n".join(align_columns([(name, _read_first_line(text)) for name, text in find_templates().items()])))
        return
    if arguments.template not in find_templates():
        raise BriefError(f"unknown template {arguments.template!r}; the templates are {', '.join(find_templates())}")
    folder = arguments.folder or Path(arguments.template)
    copy(find_templates()[arguments.template], folder)
    where = make_printable(str(folder))
    print(f"created {where}/brief.toml; edit it, then run `hotdesk brief check {where}`")


ACTS = {"check": check, "new": new}
ARGUMENTS = {"check": _add_check, "new": add_new}


# -- checking -------------------------------------------------------------------------------------------------


def _load_checked_brief(path: Path, settings: Config) -> Brief:
    """Return the checked brief as it applies on this machine; raise `BriefError` if it cannot be run."""
    job, file = read_job(path, scope_of, find), make_printable(str(find_brief(path)))
    try:
        for item in (*job.deliverables, *(job.reduce.deliverables if job.reduce is not None else ())):
            for name, expect in list_checks(item):
                _find_check(item, name, expect)
        _check_hosts(job, settings)
        walls = survey(settings)
        return route_brief(admit_brief(job, settings.limits, walls), walls, settings.verify_wall)
    except BriefError as e:
        raise BriefError(f"{file}: {e}") from None


def _find_check(item: Deliverable, name: str, expect: Mapping[str, object]) -> None:
    try:
        find(name, expect)
    except BriefError as e:
        raise BriefError(f"deliverable {item.path!r}: {e}") from None


def _check_hosts(job: Brief, settings: Config) -> None:
    if not settings.ceiling:
        return
    if outside := find_beyond_ceiling(job.scope, tuple(map(parse_rule, settings.ceiling))):
        raise BriefError(
            f"the operator's ceiling does not allow {', '.join(outside)}; remove this from the brief, or ask the "
            "operator to extend `[door] ceiling` in config.toml"
        )
    if job.scope.names:
        raise BriefError(
            "this machine has a `[door] ceiling`, so only the operator may map host names, in `[door] names` of "
            "config.toml; remove `names` from the brief"
        )


# -- templates ------------------------------------------------------------------------------------------------


def find_templates() -> dict[str, Traversable]:
    found = (files("hotdesk.brief") / "templates").iterdir()
    return {each.name: each for each in sorted(found, key=lambda each: each.name) if each.is_dir()}


def _read_first_line(template: Traversable) -> str:
    return (template / "brief.toml").read_text().splitlines()[0].removeprefix("# ")


def copy(template: Traversable, folder: Path) -> None:
    """Write a template's files, unless one of them exists already."""
    found = dict(walk(template, folder))
    for path in (*found, folder / "brief.json"):
        if os.path.lexists(path):
            raise BriefError(f"{make_printable(str(path))} exists already; choose another folder")
    try:
        for path, data in found.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)
    except OSError as e:
        raise BriefError(f"{make_printable(str(folder))} cannot be written: {e.strerror}; choose another folder") from e


def walk(template: Traversable, folder: Path) -> Iterator[tuple[Path, bytes]]:
    for each in template.iterdir():
        if each.is_dir() and each.name != "__pycache__":
            yield from walk(each, folder / each.name)
        elif each.is_file():
            yield folder / each.name, each.read_bytes()
