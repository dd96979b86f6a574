"""Warnings about a brief that is valid, but probably not as intended."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from hotdesk.brief.brief import DRIVE, Brief
from hotdesk.brief.names import is_address
from hotdesk.brief.rules import rule_text
from hotdesk.checks.active_requirements import UNREAD_ARCHIVES
from hotdesk.cli.brief_summary import measure_input
from hotdesk.config import Config, find_node_identity
from hotdesk.desk.image import image
from hotdesk.door.policy.presets import PRESETS
from hotdesk.errors import make_printable

_EVERYTHING = frozenset("all any anyone anything anywhere every everything everywhere internet net open web".split())
_NOTHING = frozenset("closed disabled empty false no none nothing nowhere null off offline".split())
"""What people write in place of a host."""


def warn(texts: Iterable[str]) -> None:
    for text in texts:
        print(f"warning: {text}", file=sys.stderr)


def list_input_warnings(job: Brief) -> Iterator[str]:
    """List inputs without content, and items that match no file."""
    for name in job.inputs:
        if not name.startswith(DRIVE) and not measure_input(job.folder / name)[1]:
            yield _explain_empty_input(job.folder / name, make_printable(name))
    over = job.each.over if job.each is not None else ""
    if over and not any(job.folder.glob(over)):
        yield f"`over` in [each] matches no file next to the brief: {make_printable(over)!r}; correct it, or add files"


def _explain_empty_input(path: Path, name: str) -> str:
    if path.is_file():
        return f"the input {name!r} is an empty file; write its content, or remove it from inputs"
    if not measure_input(path)[0]:
        return f"the input {name!r} is a folder without files; put the files there, or remove it from inputs"
    return f"every file of the input {name!r} is empty; fill these files, or remove {name!r} from inputs"


def list_rule_warnings(job: Brief, settings: Config) -> Iterator[str]:
    """List egress rules for a host of a single word, which is rarely the name of a host."""
    for host, rule in dict.fromkeys((rule.host, rule_text(replace(rule, step=""))) for rule in job.scope.rules):
        is_expected = "." in host or is_address(host) or host in ("localhost", *job.scope.names, *settings.names)
        if not is_expected:
            yield f"the egress rule {rule!r} is for one host with the name {host!r}; {_guess_meaning(host, rule)}"


def _guess_meaning(host: str, rule: str) -> str:
    if host in _EVERYTHING and rule.startswith("deny "):
        return "requests that no rule allows are refused anyway, so remove this rule"
    if host in _EVERYTHING:
        return (
            "a rule cannot stand for every host; list each host that the job needs, such as 'example.com' or "
            "'*.example.com'"
        )
    if host in _NOTHING:
        return "a brief without egress rules reaches nothing, so remove this rule"
    if close := get_close_matches(host, PRESETS, n=1, cutoff=0.5):
        return f"did you mean the preset {close[0]!r}? Write only its name as the rule."
    return f"write the whole name of the host, such as '{host}.com'"


def list_archive_warnings(job: Brief) -> Iterator[str]:
    """List deliverables whose checks must fail, because archives of their format cannot be inspected."""
    for item in job.deliverables:
        suffix = PurePosixPath(item.path).suffix.lstrip(".").lower()
        if item.checks and suffix in UNREAD_ARCHIVES and "unknown-format" not in item.active:
            yield (
                f"the deliverable {make_printable(item.path)!r} cannot pass its checks: only zip archives can be "
                'inspected; deliver a .zip, or write active = ["unknown-format"] to allow a file that is not inspected'
            )


def list_image_warnings(job: Brief, settings: Config) -> Iterator[str]:
    """List images that are not on this machine, as far as this user can read; nodes have images of their own."""
    if find_node_identity(settings) is not None:
        return
    for name in dict.fromkeys((job.image, *([job.reduce.image] if job.reduce is not None else []))):
        if not _is_here(settings, name):
            close = get_close_matches(name, [each for each in image.list_known(settings.images) if each != name], n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            yield f"the image {name!r} is not on this machine; {meant}{image.describe_remedy(name)}"


def _is_here(settings: Config, name: str) -> bool:
    try:
        return image.get_record_path(settings.images, name).exists()
    except OSError:
        return True
