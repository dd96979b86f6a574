"""A certificate as text."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence

from hotdesk.drive.certificate import Fields
from hotdesk.walls import WallProof

MAX_LINES = 40
"""Maximum lines of one kind for one check."""
ASKED_AT = ", asked at "
"""Separates a model's name from an address that is not its vendor's."""
WIDE = 100
"""Maximum characters of a line in the short form."""
_CAVEAT = "a certificate proves what was checked and that this is the checked file, not that its content is true"


def format_page(claim: Fields, name: str, signer: str, believed: str) -> Iterator[str]:
    """Format a whole certificate: file, time, signer, and each check with its values, pages and tools."""
    for word, text in (
        *_list_head_rows(claim, name, signer, believed),
        *(row for each in claim["checks"] for row in check(each)),
    ):
        yield f"  {word:12} {text}"
    yield f"  {'note':12} {_CAVEAT}"


def format_short_page(claim: Fields, name: str, signer: str, believed: str) -> Iterator[str]:
    """Format the main part of a certificate: file, signer, what was found in order, what was not checked."""
    rows = [*_of_file(claim["file"], name), ("signed", f"{format_moment(claim['at'])} by {signer}, {believed}")]
    rows += [
        ("made by", _describe_brain(claim["brain"])),
        *(row for each in claim["checks"] for row in _format_check(each)),
    ]
    for word, text in rows:
        yield f"  {word:12} {text}"
    yield f"  {'note':12} {_CAVEAT}"


def _format_check(record: Fields) -> Iterator[tuple[str, str]]:
    """Format one check in up to three lines, and list everything it did not check."""
    clean = record["desk"]["sterile"] and not record["desk"]["network"]
    place = "in a clean desk" if clean else describe_place(record)
    text = f"{record['check']}, {place}: {'; '.join(record['held']) or 'passed'}"
    for number, line in enumerate(textwrap.wrap(text, WIDE, max_lines=3, placeholder=" …: see --all")):
        yield "" if number else "check", line
    yield from _list_given_files(record)
    yield from (("NOT CHECKED", each) for each in _list_unchecked(record))


def _list_given_files(record: Fields) -> Iterator[tuple[str, str]]:
    """Yield the extra inputs that the brief gave a check, such as its program. Old certificates do not have them."""
    yield from _limit_rows("beside", [f"{name}, sha256 {digest}" for name, digest in record.get("beside", {}).items()])


def _list_unchecked(record: Fields) -> Sequence[str]:
    return record["not_checked"] or ['anything that is not listed under "looked for"']


def _of_file(file: Fields, name: str) -> Iterator[tuple[str, str]]:
    yield "file", f"{file['size']} bytes, sha256 {file['sha256']}"
    if file["name"].rpartition("/")[2] != name:
        yield "NAME", f"it was certified under the name {file['name']}; this file is called {name}"


def _list_head_rows(claim: Fields, name: str, signer: str, believed: str) -> Iterator[tuple[str, str]]:
    job, plan, journal = claim["job"], claim["plan"], claim["journal"]
    yield from _of_file(claim["file"], name)
    yield (
        "when",
        f"{format_moment(claim['at'])}, by hotdesk {claim['hotdesk']['version']} on {claim['hotdesk']['architecture']}",
    )
    yield "signed by", f"{signer}, {believed}"
    yield "made by", _describe_brain(claim["brain"])
    yield "job", f"{job['id']}, started by {job['by'] or 'an unknown user'}"
    yield "goal", f"sha256 {job['goal']}; sha256 of the brief: {job['brief']}"
    yield "plan", f"{plan['digest']}; {_describe_approvals(plan['approvals'])}"
    yield (
        "journal",
        f"event {journal['job']['seq']} of the job, event {journal['last']['id']} of the journal: hash "
        f"{journal['last']['hash']}",
    )


def _describe_brain(record: Fields) -> str:
    if record["kind"] == "script":
        return f"{record['name']}: a SCRIPT; its decisions were written in advance, no model made them"
    replied = [each for each in record["models"] if each != record["name"].partition(ASKED_AT)[0]]
    text = f"{record['name']}, a model" + (f"; replies came from {', '.join(record['models'])}" if replied else "")
    places = (f"{each['model']}{ASKED_AT}{each['address']}" for each in record.get("addresses", ()))
    elsewhere = [place for place in places if place not in record["name"]]
    return text + (f"; {', '.join(elsewhere)}, not at the vendor's own address" if elsewhere else "")


def _describe_approvals(records: Sequence[Fields]) -> str:
    words = [
        f"{each['kind']}{' ' * bool(each['step'])}{each['step']} {each['answer']}"
        f"{' by ' * bool(each['by'])}{each['by'] or ''}"
        for each in records
    ]
    return "; ".join(words) or "no approval is recorded"


def check(record: Fields) -> Iterator[tuple[str, str]]:
    yield "check", f"{record['check']}, {describe_place(record)}"
    yield from _list_wall_rows(record["desk"])
    yield from _limit_rows("holds", record["held"])
    yield from _limit_rows("value", [f"{name}: {value}" for name, value in record["values"].items()])
    yield from _limit_rows(
        "page", [f"{each['width']} x {each['height']}, sha256 {each['sha256']}" for each in record["pages"]]
    )
    yield from _list_given_files(record)
    yield "looked for", ", ".join(record["looked_for"]) or "nothing"
    if record["tools"]:
        yield "with", ", ".join(f"{name} {version}" for name, version in record["tools"].items())
    yield from (("NOT CHECKED", each) for each in _list_unchecked(record))


def describe_place(record: Fields) -> str:
    desk, image = record["desk"], record["image"]
    if not desk["sterile"] or desk["network"]:
        return f"NOT in a clean desk: wall {desk['wall']}, {'with' if desk['network'] else 'without'} network"
    return f"in clean desk {desk['id']} without network, image {image['name']} {image['digest'][:16]}"


def _list_wall_rows(desk: Fields) -> Iterator[tuple[str, str]]:
    """Yield the wall that the desk's keeper proved, which older certificates do not have."""
    if "kernel" in desk:
        proof = WallProof(desk["wall"], desk["kernel"], desk["boundary"], desk["version"], desk["platform"])
        yield "wall", f"{proof.describe()}, as verified before the desk was released"


def _limit_rows(word: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for each in texts[:MAX_LINES]:
        yield word, each
    if len(texts) > MAX_LINES:
        yield word, f"and {len(texts) - MAX_LINES} more: see --json"


def format_moment(at: int) -> str:
    """Format a time in UTC; one outside the calendar's range is shown as a number."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at / 1000))
    except (ValueError, OverflowError, OSError):
        return f"{at} ms after 1970"
