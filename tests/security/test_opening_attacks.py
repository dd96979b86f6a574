"""A file that acts when it is opened: found in what it says, counted in what it does, each without the other."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks.active import ActiveCheck
from hotdesk.checks.inside.active_look import look
from hotdesk.checks.seam import Evidence
from hotdesk.job.verify import OUTGOING, Candidate
from tests.conftest import settings_in
from tests.hostile_files import calculated, ods, pdf
from tests.security.opening_files import ACTS, HONEST, JUMP
from tests.verifying import Verifier, verifier

pytestmark = [pytest.mark.container, pytest.mark.timeout(100)]
REACHES = {
    "a document": "a picture by a link to a page",
    "slides": "a slide's picture by a link to a page",
    "a table": "a table from elsewhere",
}
"""What tries to fetch something in our own office, by what it is in."""
ASKS = {
    "a file": "another office's formula of a file",
    "FTP": "a formula that reads by FTP",
    "nearby": "a table from nearby",
}
"""What reaches no network, and links another file all the same."""
SENDS = """
import socket, sys
def tried(call, *given):
    try:
        call(*given)
    except OSError:
        pass
for kind in sys.argv[1:]:
    family = socket.AF_INET6 if "6" in kind else socket.AF_INET
    if kind == "name":
        tried(socket.getaddrinfo, "name.test", 80)
    elif kind == "unix":
        tried(socket.socket(socket.AF_UNIX).connect, "/nothing")
    else:
        near, far = ("::1", "2001:db8::1") if "6" in kind else ("127.0.0.1", "192.0.2.1")
        far = far if "far" in kind else near
        if "udp" in kind:
            tried(socket.socket(family, socket.SOCK_DGRAM).sendto, b"x", (far, 9))
        else:
            tried(socket.socket(family).connect, (far, 9))
"""


@pytest.fixture(scope="module")
async def machine(home: Path) -> AsyncIterator[Verifier]:
    """Give a machine that verifies, with an office that comes and goes from test to test."""
    folder = home / "opened-brief"
    folder.mkdir()
    async with verifier(settings_in(home / "opened"), home / "opened", folder, "office") as found:
        yield found
    shutil.rmtree(home / "opened")


@pytest.mark.parametrize("what", ACTS)
def test_what_acts_when_it_is_opened_is_found_without_opening_it(tmp_path: Path, what: str) -> None:
    family, (name, data) = ACTS[what]
    (tmp_path / name).write_bytes(data)
    told = look(str(tmp_path / name))
    assert family in {each[0] for each in told["found"]}, told  # type: ignore[attr-defined]


@pytest.mark.parametrize("what", REACHES)
async def test_one_attempt_to_reach_out_while_it_is_open_fails_a_file(machine: Verifier, what: str) -> None:
    _, (name, data) = ACTS[REACHES[what]]
    made = await machine.look(name, data, "active-content")
    assert OUTGOING in {fault.rule for seen in made.seen for fault in seen.faults}
    assert machine.shared("office") is None, "an office that was refused once does not ask again"


@pytest.mark.parametrize("what", ASKS)
async def test_a_link_to_another_file_is_told_by_the_office_that_follows_it(machine: Verifier, what: str) -> None:
    _, (name, data) = ACTS[ASKS[what]]
    made = await machine.look(name, data, "active-content")
    told = [fault for seen in made.seen for fault in seen.faults if fault.where == "when it is opened"]
    assert [fault.rule for fault in told] == ["external-links"]


async def test_an_action_of_the_viewer_is_told_by_the_viewer_that_carries_it_out(machine: Verifier) -> None:
    data = pdf(f"{JUMP} [3 0 R /Fit] /Next << /S /Named /N /Print >> >>")
    made = await machine.look("a.pdf", data, "active-content")
    assert [fault.found for seen in made.seen for fault in seen.faults if fault.where == "when it is opened"] == [
        "an action of the viewer: Print"
    ]


async def test_a_picture_fetched_by_a_link_to_a_page_gets_no_pass(machine: Verifier) -> None:
    _, (name, data) = ACTS["a picture by a link to a page"]
    made = await machine.look(name, data, "active-content")
    assert not made.passed


@pytest.mark.parametrize("what", HONEST)
async def test_what_waits_for_a_click_passes(machine: Verifier, what: str) -> None:
    made = await machine.look(*HONEST[what], "active-content")
    assert made.faults == []
    assert OUTGOING in made.seen[0].looked_for
    assert made.seen[0].values["opened by"] in ("LibreOffice", "PDFium")


async def test_what_a_brief_allows_is_not_fetched_and_passes(machine: Verifier) -> None:
    made = await machine.look(
        "a.ods", ods(calculated("of:=['http://x.test/b.ods'#$S.A1]")), "active-content", "external-links"
    )
    assert made.faults == []
    assert OUTGOING not in made.seen[0].looked_for
    assert await machine.verifying.shared["office"].attempts() == 0


@pytest.mark.parametrize(
    "kind", ["tcp", "tcp-far", "udp", "udp-far", "tcp6", "tcp6-far", "udp6", "udp6-far", "name", "unix"]
)
async def test_nothing_is_sent_uncounted(machine: Verifier, kind: str) -> None:
    place = machine.verifying.shared["base"]
    await place.attempts()
    assert (await place.desk.run(["python3", "-c", SENDS, kind], timeout=30)).ok
    assert bool(await place.attempts()) == (kind != "unix")


async def test_a_file_that_reaches_out_once_it_was_looked_at_fails_in_the_end(machine: Verifier) -> None:
    verifying, item = machine.verifying, Deliverable("a.txt", "txt", (RequiredCheck("active-content"),))
    opened, verifying.shared = verifying.shared, {"base": verifying.shared["base"]}
    try:
        (first,) = await verifying.verify_all([Candidate(item, b"text")])
        assert first.passed
        assert (await verifying.shared["base"].desk.run(["python3", "-c", SENDS, "udp"], timeout=30)).ok
        first, second = await verifying.verify_all([first, Candidate(item, b"another")])
    finally:
        verifying.shared = opened
        verifying.late.clear()
    assert OUTGOING in {fault.rule for seen in first.seen for fault in seen.faults}
    assert second.passed
    assert [each.outcome for each in machine.verdicts()[-3:]] == ["passed", "passed", "failed"]


def test_an_opening_nobody_saw_is_no_opening() -> None:
    told = b'{"kind": "pdf", "bytes": 1, "parts": 0, "count": 0, "found": [], "tools": {}%s}'
    check = replace(ActiveCheck(), open=True)
    well = told % b', "opened": {"by": "PDFium", "requests": [], "why": ""}'
    assert check.judge(Evidence(well)).passed
    nothing = b', "opened": {}'
    refused = well.replace(b'"why": ""', b'"why": "no"')
    strange = well.replace(b'"requests": []', b'"requests": [["a"]]'), well.replace(b'"PDFium"', b"1")
    for said in (told % b"", told % nothing, refused, *strange):
        assert not check.judge(Evidence(said)).passed
