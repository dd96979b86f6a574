"""Attacks by files that act when opened: detected by scanning them, and independently by counting what they do."""

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
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.opening_files import (
    ACTS,
    BOOKS,
    DISGUISED,
    ENDS,
    FIELD_LINKS,
    FORMULA_LINKS,
    HEADERS,
    HONEST,
    JUMP,
    NESTED,
    OFFICE_LINKS,
    OFFICE_TEXTS,
    PAGES,
    PDF_FILES,
    PDF_LINKS,
    STARTED,
    STYLES,
    TAILS,
)
from tests.verifying import Verifier, verifier

pytestmark = [pytest.mark.container, pytest.mark.timeout(100)]
REACHES = {
    "a document": "a picture by a link to a page",
    "slides": "a slide's picture by a link to a page",
    "a table": "a table from elsewhere",
}
"""Files that fetch something when opened in our office program, by file type."""
ASKS = {
    "a file": "another office's formula of a file",
    "FTP": "a formula that reads by FTP",
    "nearby": "a table from nearby",
}
"""Files that reach no network but link another file."""
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
    folder = home / "opened-brief"
    folder.mkdir()
    async with verifier(settings_in(home / "opened"), home / "opened", folder, "office") as found:
        yield found
    shutil.rmtree(home / "opened")


USES_IGNORED = Removal(
    "inside/active_office.py", "        for key in self.links.keys() & self.uses.keys():\n", "        for key in ():\n"
)


@falls_without(
    "a link to a page is for a click",
    USES_IGNORED,
    cases="""
    a picture by a link to a page | a picture inside by a link to a page | an old picture by a link to a page |
    an old picture by another name | an object by a link to a page | a template by a link to a page |
    a slide's picture by a link to a page | a slide's link without a click |
    a picture of a sheet by a link to a page
    """,
)
@falls_without(
    "fields are listed",
    Removal(
        "inside/active_office.py",
        "    return named[1].upper() in FIELDS if named else not instruction.strip()\n",
        "    return True\n",
    ),
    cases="a field nobody listed | a field that reads a document",
)
@falls_without(
    "clicks are listed",
    Removal(
        "inside/active_office.py",
        '        if tag.startswith("hlink") and not JUMPS',
        '        if tag == "none" and not JUMPS',
    ),
    cases="a slide's click that starts a program",
)
@falls_without(
    "formulas name no address",
    Removal("inside/active_office.py", '    ("external-links", OTHER_BOOK, READS),\n', ""),
    Removal(
        "inside/active_office.py",
        "[a-z][a-z0-9+.-]*:[/\\\\]|\\\\\\\\|\\[[^\\[\\]]*\\.(?:xl\\w+|csv|od\\w|txt|html?)\\]",
        "https?://|\\\\\\\\",
    ),
    cases="""
    a formula that reads by FTP | a formula that reads a file | a formula that reads another book |
    another office's formula by FTP | another office's formula of a file | another office's formula nearby
    """,
)
@falls_without(
    "what a formula spells",
    Removal("inside/active_office.py", '    if MEANT_ELSEWHERE.search(JOINED.sub("", text)):\n', "    if not text:\n"),
    cases="a formula that reads what it spells",
)
@falls_without(
    "no formula runs elsewhere",
    Removal("inside/active_office.py", '("scripts", r"\\bPY\\s*\\(", ', '("scripts", r"\\bPYTHON\\s*\\(", '),
    cases="a formula that runs Python elsewhere",
)
@falls_without(
    "what is shown lies inside",
    Removal("inside/active_office.py", "            if not self.has(part, target):\n", "            if not part:\n"),
    cases="a table from nearby | a table from elsewhere | a picture from nearby | a ground from elsewhere",
)
@falls_without(
    "links lead to pages",
    Removal(
        "inside/active_office.py",
        '(word == "href" and not _is_plain(value, clicked=clicked))',
        '(word == "href" and not value)',
    ),
    cases="a link that is a macro",
)
@falls_without(
    "drawings are pages",
    Removal(
        "inside/active_office.py", '    if get_local_name(root) == "svg":\n', '    if get_local_name(root) == "SVG":\n'
    ),
    cases="a drawing that fetches, as a part",
)
@falls_without(
    "queries by what they are",
    Removal("inside/active_office.py", '    "queryTable": ("queries", "a query"),\n', ""),
    cases="a query by another name",
)
@falls_without(
    "documents of one text",
    Removal(
        "inside/active_look.py",
        "        if FLAT.search(text[:4096]) and not PAGE.match(text):\n",
        "        if not text:\n",
    ),
    cases="a formula in one text | an old document in one text",
)
@falls_without(
    "an action shows a page and ends",
    Removal(
        "inside/active_pdf.py",
        '            return kinds == {b"/GoTo"} and keys <= SHOWS\n',
        '            return kinds == {b"/GoTo"}\n',
    ),
    cases="a PDF that goes on | a PDF that goes on elsewhere",
)
@falls_without(
    "nothing odd stands in an action",
    Removal(
        "inside/active_pdf.py",
        "    return False\n\n\ndef unpack_object_streams(",
        "    return True\n\n\ndef unpack_object_streams(",
    ),
    cases="a PDF that goes on behind a remark | a PDF that goes on behind brackets",
)
@falls_without(
    "what ends a name does not stand in one",
    Removal(
        "inside/active_pdf.py",
        "match[0] if (meant := bytes([int(match[1], 16)])) in ENDING else meant",
        "bytes([int(match[1], 16)])",
    ),
    cases="a PDF that goes on behind a name",
)
@falls_without(
    "a PDF names no file elsewhere",
    Removal(
        "inside/active_pdf.py",
        "            if target is not None and AWAY.match(target):\n",
        "            if target is not None and not match:\n",
    ),
    cases=["a PDF's stream by its address", *PDF_FILES],
)
@falls_without(
    "a PDF's links lead to pages",
    Removal(
        "inside/active_pdf.py",
        '            if target is None or not leads_to_page(target.decode("latin-1")):\n',
        "            if target is None:\n",
    ),
    cases=[what for what in PDF_LINKS if not what.endswith("a list")],
)
@falls_without(
    "every definition of a PDF's link counts",
    Removal(
        "inside/active_pdf.py",
        'self.places.get((number, generation), [(b"", 0)]):\n',
        'self.places.get((number, generation), [(b"", 0)])[:1]:\n',
    ),
    cases="a PDF's link defined twice | a PDF's link defined behind a remark | a PDF's link defined in packed objects",
)
@falls_without(
    "a PDF's link that cannot be read",
    Removal(
        "inside/active_pdf.py",
        '        if not (match["kind"] or match["dict"] or match.start() in links):\n',
        "        if not match:\n",
    ),
    cases="a PDF's link that is a list",
)
@falls_without(
    "a PDF's files are its own",
    Removal("inside/active_pdf.py", 'rb"/FS" + GAP + rb"/URL"', 'rb"/FS" + GAP + rb"/None"'),
    Removal(
        "inside/active_pdf.py",
        "            if target is not None and AWAY.match(target):\n",
        "            if target is not None and not match:\n",
    ),
    cases="a PDF's file by its address",
)
@falls_without(
    "a table may say what parts it",
    Removal(
        "inside/active_text.py",
        "    if declared:\n        return [declared[1]",
        "    if not lines and declared:\n        return [declared[1]",
    ),
    cases="a table that says what parts it",
)
@falls_without(
    "what is not seen begins no cell",
    Removal("inside/active_text.py", " or unicodedata.category(each) in INVISIBLE)", ' or each in " \\u00a0")'),
    cases="a cell behind nothing to see | a cell behind a mark | a cell behind several",
)
@falls_without(
    "signs in every width",
    Removal(
        "inside/active_text.py",
        '    return text[:1] if text[:1].isascii() else unicodedata.normalize("NFKC", text[:1])\n',
        "    return text[:1]\n",
    ),
    cases="a cell that begins in small",
)
@falls_without(
    "tags are read as a browser reads them",
    Removal("inside/active_text.py", "    active_markup.inspect_tags(text, found, where, is_data=is_data)\n", ""),
    cases=[*PAGES, "a page's handler behind a mark"],
)
@falls_without(
    "styles are read without escapes and remarks",
    Removal(
        "inside/active_text.py",
        "        active_markup.inspect_styles(one, found, where)\n",
        "        assert one is not None\n",
    ),
    cases=STYLES,
)
@falls_without(
    "a field of rich text leads to a page",
    Removal(
        "inside/active_text.py",
        "        if target := active_links.find_field_link(bare, anywhere=not RICH_PLAIN.fullmatch(field[1])):\n",
        '        if target := "":\n',
    ),
    cases="rich text with a link to a share",
)
@falls_without(
    "a member has one name",
    Removal(
        "inside/active_zip.py",
        "        if kind == OTHER_NAME and value[5:] != name:\n",
        "        if kind == OTHER_NAME and not name:\n",
    ),
    cases="an archive with another name",
)
@falls_without(
    "a member's fields are listed",
    Removal("inside/active_zip.py", "        if kind not in (*PLAIN_EXTRA, OTHER_NAME):\n", "        if kind == 0:\n"),
    cases="an archive with a field",
)
@falls_without(
    "an archive's headers agree with its directory",
    Removal(
        "inside/active_zip.py",
        "        if what := _describe_difference(info, flags, method, tuple(sizes), name, local):\n",
        '        if what := "":\n',
    ),
    cases=HEADERS,
)
@falls_without(
    "compressed data end where their member does",
    Removal(
        "inside/active_zip.py",
        "        if info.compress_type == zipfile.ZIP_DEFLATED and not _ends_exactly(file, info):\n",
        "        if not info:\n",
    ),
    cases=TAILS,
)
@falls_without(
    "an archive's end record is true",
    Removal("inside/active_zip.py", "    if not _is_consistent(data, end, file):\n", "    if not data:\n"),
    cases=ENDS,
)
@falls_without(
    "an archive's names are whole",
    Removal("inside/active_zip.py", '        if "\\0" in info.orig_filename:\n', "        if not info.filename:\n"),
    cases="an archive with a name that ends early",
)
@falls_without(
    "an archive's members have no comments",
    Removal("inside/active_zip.py", "        if info.comment:\n", "        if not info:\n"),
    cases="an archive with a comment on a member",
)
@falls_without(
    "an archive's folders have no data",
    Removal(
        "inside/active_zip.py",
        "        if info.is_dir() and (info.file_size or info.compress_size > 2):\n",
        "        if not info:\n",
    ),
    cases="an archive with data in a folder",
)
@falls_without(
    "an office's links lead to pages",
    Removal(
        "inside/active_office.py",
        "        if out and not (link and leads_to_page(target)):\n",
        "        if out and not link:\n",
    ),
    cases=[what for what in OFFICE_LINKS if what.startswith("a document's")],
)
@falls_without(
    "what is clicked leads to a page",
    Removal(
        "inside/active_office.py",
        "not (clicked or leads_elsewhere(target))",
        "not leads_elsewhere(target)",
    ),
    cases="a shape's link to a program | a text's link to a program",
)
@falls_without(
    "a formula's links lead to pages",
    Removal(
        "inside/active_office.py",
        'any(not leads_to_page(target) for target in LINKED.findall(JOINED.sub("", text)))',
        "not text",
    ),
    cases=FORMULA_LINKS,
)
@falls_without(
    "a field's link is its first argument",
    Removal("inside/active_office.py", " or find_field_link(instruction, anywhere=is_loose):\n", ":\n"),
    cases=FIELD_LINKS,
)
@falls_without(
    "a field's name is its own",
    Removal(
        "inside/active_office.py",
        "        if not self.ended and not COMPLETE_NAME.match(self.instruction):\n",
        "        if not self:\n",
    ),
    cases=NESTED,
)
@falls_without(
    "a formula reads no other book",
    Removal("inside/active_office.py", '    ("external-links", OTHER_BOOK, READS),\n', ""),
    cases=BOOKS,
)
@falls_without(
    "a picture is more than its first letters",
    Removal(
        "inside/active_look.py",
        "        if not active_kinds.is_picture(data):\n",
        '        if not data.startswith((b"BM", b"RIFF", b"VCLMTF")):\n',
    ),
    cases=DISGUISED,
)
@falls_without(
    "names in an archive are known",
    Removal(
        "inside/active_look.py",
        "(STARTED.search(name) or not (office or active_kinds.is_inert_name(name)))",
        'name.endswith(".exe")',
    ),
    cases=STARTED,
)
@falls_without(
    "an office's suffix is an office's format",
    Removal("inside/active_look.py", "        elif suffix in active_kinds.OFFICE and ", "        elif not suffix and "),
    cases=OFFICE_TEXTS,
)
@pytest.mark.parametrize("what", ACTS)
def test_active_content_is_found_without_opening_the_file(tmp_path: Path, what: str) -> None:
    family, (name, data) = ACTS[what]
    (tmp_path / name).write_bytes(data)
    told = look(str(tmp_path / name))
    assert family in {each[0] for each in told["found"]}, told  # type: ignore[attr-defined]


ATTEMPTS_UNCOUNTED = Removal(
    "job/verify.py",
    "        attempts = await at.count_send_attempts() if counted else None\n",
    "        attempts = 0 if counted else None\n",
)


@pytest.mark.sample(2)
@falls_without("what is sent while a file is open is counted", ATTEMPTS_UNCOUNTED)
@falls_without(
    "a file is opened as one who trusts it does",
    Removal("checks/active.py", "        links = not REACHING & set(self.allow)\n", "        links = False\n"),
    cases="a table",
)
@pytest.mark.parametrize("what", REACHES)
async def test_one_network_request_while_open_fails_a_file(machine: Verifier, what: str) -> None:
    _, (name, data) = ACTS[REACHES[what]]
    made = await machine.look(name, data, "active-content")
    assert OUTGOING in {fault.rule for seen in made.verdicts for fault in seen.faults}
    assert machine.shared("office") is None, "an office that was refused once does not ask again"


@falls_without("a file is opened as one who trusts it does")
@falls_without(
    "what a file asks for is a fault", Removal("checks/active.py", "(*faults, *requests), versions", "faults, versions")
)
@pytest.mark.parametrize("what", ASKS)
async def test_a_link_to_another_file_is_reported_by_the_office(machine: Verifier, what: str) -> None:
    _, (name, data) = ACTS[ASKS[what]]
    made = await machine.look(name, data, "active-content")
    told = [fault for seen in made.verdicts for fault in seen.faults if fault.where == "when the file is opened"]
    assert [fault.rule for fault in told] == ["external-links"]


@falls_without("what a file asks for is a fault")
async def test_an_action_of_the_viewer_is_reported_by_the_viewer(machine: Verifier) -> None:
    data = pdf(f"{JUMP} [3 0 R /Fit] /Next << /S /Named /N /Print >> >>")
    made = await machine.look("a.pdf", data, "active-content")
    told = [fault for seen in made.verdicts for fault in seen.faults if fault.where == "when the file is opened"]
    assert [fault.found for fault in told] == ["an action that controls the viewer: Print"]


@falls_without("found, or counted", USES_IGNORED, ATTEMPTS_UNCOUNTED)
async def test_a_picture_fetched_from_a_page_fails_a_file(machine: Verifier) -> None:
    _, (name, data) = ACTS["a picture by a link to a page"]
    made = await machine.look(name, data, "active-content")
    assert not made.passed


@falls_without(
    "no printer is looked for",
    Removal(
        "inside/office.py",
        '("SAL_DISABLE_PRINTERLIST", "SAL_DISABLE_CUPS", "SAL_DISABLE_OPENCL")',
        '("SAL_DISABLE_PRINTERLIST", "SAL_DISABLE_OPENCL")',
    ),
    cases="a workbook",
)
@no_guard(
    "no attack: what does nothing is not refused",
    cases="""
    a document with a link | slides with a link | a text with a link | a table | a deck | a PDF with a link
    """,
)
@pytest.mark.parametrize("what", HONEST)
async def test_content_that_waits_for_a_click_passes(machine: Verifier, what: str) -> None:
    made = await machine.look(*HONEST[what], "active-content")
    assert made.faults == []
    assert OUTGOING in made.verdicts[0].looked_for
    assert made.verdicts[0].values["opened by"] in ("LibreOffice", "PDFium")


@falls_without(
    "what is allowed is not fetched",
    Removal("checks/active.py", "        links = not REACHING & set(self.allow)\n", "        links = True\n"),
)
async def test_active_content_a_brief_allows_passes_and_is_not_fetched(machine: Verifier) -> None:
    made = await machine.look(
        "a.ods", ods(calculated("of:=['http://x.test/b.ods'#$S.A1]")), "active-content", "external-links"
    )
    assert made.faults == []
    assert OUTGOING not in made.verdicts[0].looked_for
    assert await machine.verifying.shared["office"].count_send_attempts() == 0


@falls_without("connections are counted", Removal("linux/netstat.py", '"TcpActiveOpens", ', ""), cases="tcp | tcp6")
@falls_without("datagrams are counted", Removal("linux/netstat.py", '"UdpOutDatagrams", ', ""), cases="udp | name")
@falls_without(
    "datagrams of the newer kind are counted", Removal("linux/netstat.py", '"Udp6OutDatagrams", ', ""), cases="udp6"
)
@falls_without(
    "what finds no route is counted", Removal("linux/netstat.py", '"IpOutNoRoutes",', ""), cases="tcp-far | udp-far"
)
@falls_without(
    "what finds no route of the newer kind is counted",
    Removal("linux/netstat.py", '"Ip6OutNoRoutes",', ""),
    cases="tcp6-far | udp6-far",
)
@no_guard("no attack: what stays in the desk is not counted", cases="unix")
@pytest.mark.parametrize(
    "kind", ["tcp", "tcp-far", "udp", "udp-far", "tcp6", "tcp6-far", "udp6", "udp6-far", "name", "unix"]
)
async def test_every_network_request_is_counted(machine: Verifier, kind: str) -> None:
    place = machine.verifying.shared["base"]
    await place.count_send_attempts()
    assert (await place.desk.run(["python3", "-c", SENDS, kind], timeout=30)).ok
    assert bool(await place.count_send_attempts()) == (kind != "unix")


@falls_without(
    "what is sent late is put down to a file",
    Removal(
        "job/verify.py",
        "        return [self.fail_late_sender(place, each) for place, each in enumerate(proven, 1)]\n",
        "        return proven\n",
    ),
)
async def test_a_file_that_makes_a_request_after_its_check_still_fails(machine: Verifier) -> None:
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
    assert OUTGOING in {fault.rule for seen in first.verdicts for fault in seen.faults}
    assert second.passed
    assert [each.outcome for each in machine.verdicts()[-3:]] == ["passed", "passed", "failed"]


@falls_without(
    "what is opened was seen to be",
    Removal(
        "checks/active.py",
        '            raise MalformedReportError("the record of opening the file is invalid")\n',
        '            return "PDFium", ()\n',
    ),
)
def test_a_missing_or_malformed_record_of_the_opening_fails_a_file() -> None:
    told = b'{"kind": "pdf", "bytes": 1, "parts": 0, "count": 0, "found": [], "tools": {}%s}'
    check = replace(ActiveCheck(), open=True)
    well = told % b', "opened": {"by": "PDFium", "requests": [], "why": ""}'
    assert check.judge(Evidence(well)).passed
    nothing = b', "opened": {}'
    refused = well.replace(b'"why": ""', b'"why": "no"')
    strange = well.replace(b'"requests": []', b'"requests": [["a"]]'), well.replace(b'"PDFium"', b"1")
    for said in (told % b"", told % nothing, refused, *strange):
        assert not check.judge(Evidence(said)).passed
