"""Attacks by a deliverable on its verifier: it fakes results, exhausts resources, or keeps running."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks import evidence, execution
from hotdesk.checks.active import FAMILIES, ActiveCheck
from hotdesk.checks.command import CommandCheck
from hotdesk.checks.csv import CsvCheck
from hotdesk.checks.custom import CustomCheck
from hotdesk.checks.evidence import MAX_REPORT_BYTES, WIDEST, describe_failure, read_json, unpack
from hotdesk.checks.execution import Execution
from hotdesk.checks.json import JsonCheck
from hotdesk.checks.program import ProgramCheck
from hotdesk.checks.required import list_checks
from hotdesk.checks.seam import Check, Evidence, Verdict
from hotdesk.checks.xlsx.cover import MOST_LARGE, Cover
from hotdesk.checks.xlsx.place import Area
from hotdesk.checks.zip import ZipCheck
from hotdesk.desk.seam import Desk, Done
from hotdesk.job.verify import Candidate, CleanDesk, judge_evidence
from tests.conftest import settings_in
from tests.security.conftest import KNOCK
from tests.security.guards import Removal, falls_without, no_guard
from tests.verifying import Verifier, verifier

pytestmark = [pytest.mark.container, pytest.mark.timeout(100)]
SECRET = "no check names this: Quokka Nebelhorn"
PASSED = {"passed": True, "faults": [], "held": ["all of it"], "values": {}, "looked_for": ["everything"]}
STAYS = """
import os, subprocess, sys
subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
print(42)
"""
SEARCH = """
import http.client, os, socket
found = []
for folder in ("/home", "/tmp", "/run", "/var/tmp", "/dev/shm"):
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                data = open(os.path.join(place, name), "rb").read(1 << 20)
            except OSError:
                continue
            if b"Quokka" in data and not name.startswith("deliverable"):
                found.append(name)
for host in ("1.1.1.1", "10.0.0.1"):
    try:
        socket.create_connection((host, 80), 1)
        found.append(f"{host} answers")
    except OSError:
        pass
door = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
door.request("GET", "http://example.test/")
print(sorted(found), sorted(os.listdir("beside")), door.getresponse().status)
"""


@pytest.fixture(scope="module")
async def machine(home: Path) -> AsyncIterator[Verifier]:
    """Yield a machine that verifies, and a brief's folder with more in it than any check names.

    An office program keeps running in its desk across tests.
    """
    folder = home / "attacked-brief"
    folder.mkdir()
    (folder / "input.txt").write_text(SECRET)
    (folder / "named.txt").write_text("this one is named")
    async with verifier(settings_in(home / "attacked"), home / "attacked", folder) as opened:
        desk = opened.shared()
        assert desk is not None
        await desk.run(KNOCK, timeout=20)
        yield opened
    shutil.rmtree(home / "attacked")


def told(value: object) -> Evidence:
    return Evidence(json.dumps(value).encode())


@falls_without(
    "rows are counted here",
    Removal(
        "checks/csv.py",
        "        if self.rows is not None and len(table) - 1 not in self.rows:\n",
        "        if self.rows is None:\n",
    ),
    cases="csv",
)
@falls_without(
    "what is required is looked for here",
    Removal("checks/json.py", "                if value is NOTHING:\n", "                if value is None:\n"),
    cases="json",
)
@falls_without(
    "members are compared here",
    Removal(
        "checks/zip.py", "            if name not in there:\n", "            if name not in there and not there:\n"
    ),
    cases="zip",
)
@falls_without(
    "what was counted was told",
    Removal("checks/active.py", " or (read_number(count) and not faults)", ""),
    cases="active",
)
@falls_without(
    "a run is told whole",
    Removal(
        "checks/execution.py",
        '            raise MalformedReportError("invalid result of a program")\n',
        '            return Execution(0, "42", "", "")\n',
    ),
    cases="program | command",
)
@falls_without(
    "a check of the brief's own says these things",
    Removal("checks/custom.py", '"values": dict(values), **more} if not more:\n', '"values": dict(values)}:\n'),
    cases="custom",
)
@pytest.mark.parametrize(
    ("check", "more"),
    [
        (CsvCheck.from_expect({"rows": 1}), {"rows": [["a"]], "source": []}),
        (JsonCheck.from_expect({"required": ["a"]}), {"document": {}}),
        (ZipCheck.from_expect({"members": ["a"]}), {"members": [["b", 1, True, "file"]]}),
        (ActiveCheck(), {"kind": "text", "bytes": 1, "parts": 0, "count": 1, "found": [], "tools": {}}),
        (ProgramCheck.from_expect({"output": "42"}), {"runs": {"program": {"exit_code": 0}}, "made": {}}),
        (CommandCheck.from_expect({"run": ["true"]}), {"runs": {"command": {"exit_code": 0}}, "there": True}),
        (CustomCheck.from_expect({"file": "c.py"}), {"runs": {"check": asdict(Execution(0, json.dumps(PASSED), ""))}}),
    ],
    ids=["csv", "json", "zip", "active", "program", "command", "custom"],
)  # fmt: skip
def test_a_compromised_verifier_cannot_report_a_pass(check: Check, more: Mapping[str, Any]) -> None:
    assert not check.judge(told(PASSED)).passed
    assert not check.judge(told({**PASSED, **more})).passed
    assert not check.judge(told(more)).passed


@falls_without(
    "who says nothing has looked for nothing",
    Removal(
        "checks/custom.py",
        "            if not faults and not facts:\n",
        "            if not faults and facts is None:\n",
    ),
)
def test_output_of_a_custom_check_is_bounded_and_typed_or_ignored() -> None:
    check = CustomCheck.from_expect({"file": "c.py"})
    lies: list[dict[str, object]] = [PASSED, {**PASSED, "held": ["x"] * 99}, {"faults": [], "held": [], "values": {}}]
    for said in lies:
        assert not check.judge(execution.to_evidence({"check": Execution(0, json.dumps(said), "")})).passed


@falls_without(
    "exit codes",
    Removal(
        "checks/execution.py",
        "        if run.exit_code != self.exit_code:\n",
        "        if run.exit_code < self.exit_code:\n",
    ),
)
@pytest.mark.parametrize("lie", [json.dumps(PASSED), "42", '{"exit_code": 0, "stdout": "42"}', "\x1b]0;42\x07"])
async def test_output_of_a_program_is_not_its_verdict(machine: Verifier, lie: str) -> None:
    text = f"import sys\nprint({lie!r})\nsys.stderr.write('42')\nsys.exit(1)\n"
    made = await machine.look("a.py", text.encode(), "program", output="42")
    assert not made.passed
    assert any("expected exit code 0, found exit code 1" in fault for fault in made.faults)
    assert all(fault.isprintable() for fault in made.faults)


@falls_without(
    "what is left running is counted",
    Removal(
        "job/verify.py",
        "        trouble = evidence.trouble or await at.check_leftovers(check)\n",
        "        trouble = evidence.trouble\n",
    ),
)
@falls_without(
    "what stays is for an office suite that was started",
    Removal(
        "job/verify.py",
        "        most = self.processes + self.stays\n",
        "        most = self.processes + 2 * (self.image == OFFICE)\n",
    ),
    cases="office",
)
@pytest.mark.parametrize("image", ["base", "office"])
async def test_a_program_that_leaves_something_running_fails(machine: Verifier, image: str) -> None:
    made = await machine.look("a.py", STAYS.encode(), "program", output="42", image=image)
    assert made.faults == [
        "expected a file that can be checked without leaving processes running, "
        "found checking the file left 1 more processes running than allowed. "
        "Make the file smaller or simpler. If it is a program, it must end by itself and leave no process running."
    ]


@dataclass(frozen=True, slots=True)
class Owned:
    """A check in which the file takes over: it reports what it should, and keeps running."""

    image: ClassVar[str] = "base"
    alone: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    not_checked: ClassVar[tuple[str, ...]] = ()
    requirements: ClassVar[tuple[str, ...]] = ()
    ends: int = 0

    async def gather(self, desk: Desk, path: str) -> Evidence:
        done = await desk.run(
            ["python3", "-c", STAYS if not self.ends else f"import os; os.kill(os.getpid(), {self.ends})"]
        )
        return replace(told(PASSED), trouble=describe_failure(done))

    def judge(self, evidence: Evidence) -> Verdict:
        return Verdict(("everything",))


@falls_without("what is left running is counted", cases="stays")
@falls_without(
    "how a looker ended",
    Removal(
        "job/verify.py",
        "        trouble = evidence.trouble or await at.check_leftovers(check)\n",
        "        trouble = await at.check_leftovers()\n",
    ),
    cases="killed",
)
@pytest.mark.parametrize("ends", [pytest.param(0, id="stays", marks=pytest.mark.long), pytest.param(9, id="killed")])
async def test_a_desk_whose_verifier_was_compromised_is_burnt_and_certifies_nothing(
    machine: Verifier, ends: int
) -> None:
    async with AsyncExitStack() as stack:
        place: CleanDesk = await machine.verifying.open_desk("base", await stack.enter_async_context(AsyncExitStack()))
        kept, machine.verifying.shared = machine.verifying.shared, {"base": place}
        try:
            item = Deliverable("a.txt", "txt", (RequiredCheck("json"),))
            owned = Owned(ends)
            evidence, _ = await machine.verifying.gather_evidence(owned, place, 1, Candidate(item, b"x"))
            verdict, _ = judge_evidence(owned, evidence, "owned", "base", {})
            assert not verdict.passed
            assert [fault.rule for fault in verdict.faults] == ["undisturbed"]
            assert machine.verifying.shared == {}
            assert not machine.host.has(place.desk.id)
        finally:
            machine.verifying.shared = kept


@falls_without(
    "a clean desk reaches nothing",
    Removal("job/desks.py", "CHECKING, CLOSED, image", "CHECKING, self.job.scope, image"),
)
@falls_without(
    "a clean desk holds what is named",
    Removal(
        "job/desks.py",
        "        for name in names:\n            digests[name]",
        "        for name in (*names, *self.job.inputs):\n            digests[name]",
    ),
)
async def test_a_verifying_desk_has_nothing_of_the_job_and_no_network(machine: Verifier) -> None:
    made = await machine.look(
        "a.py", SEARCH.encode(), "program", output="[] ['named.txt'] 403", beside=["named.txt"], seconds=30
    )
    assert made.faults == []


@falls_without(
    "the bytes that were taken",
    Removal(
        "job/verify.py",
        "        return replace(candidate, verdicts=tuple(verdicts))\n",
        '        return replace(candidate, data=candidate.data + b" ", verdicts=tuple(verdicts))\n',
    ),
)
async def test_the_stored_bytes_are_the_verified_bytes(machine: Verifier) -> None:
    text = b"import sys, os\nos.remove(sys.argv[0]); open(sys.argv[0], 'w').write('other')\nprint(42)\n"
    made = await machine.look("a.py", text, "program", output="42")
    assert made.passed
    assert made.data == text
    assert {each.sha256 for each in machine.verdicts()[-2:]} == {hashlib.sha256(text).hexdigest()}


@falls_without(
    "how much a program may say",
    Removal("checks/execution.py", "MAX_OUTPUT_BYTES = 1 << 20\n", "MAX_OUTPUT_BYTES = 1 << 28\n"),
)
async def test_a_program_with_endless_output_is_cut_off(machine: Verifier) -> None:
    text = b"import sys\nfor _ in range(100): sys.stdout.write('x' * (1 << 20))\n"
    made = await machine.look("a.py", text, "program", contains=["x"], seconds=40)
    assert any("a program that printed too much output" in fault for fault in made.faults)
    assert len(machine.verifying.log.papers.read(machine.verdicts()[-1].paper)) < 100_000


@falls_without(
    "in how many pieces evidence may be",
    Removal("checks/evidence.py", '    if data.count(b"[") + data.count(b"{") > MOST_NESTED:\n', "    if not data:\n"),
)
def test_evidence_with_a_million_elements_is_refused() -> None:
    said = b'{"drawn": [], "x": [' + b"[]," * (MAX_REPORT_BYTES // 3 - 20) + b"[]]}"
    tracemalloc.start()
    try:
        assert unpack(said).pages == ()
        assert not JsonCheck().judge(Evidence(said)).passed
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_REPORT_BYTES
    finally:
        tracemalloc.stop()


HUGE = 10**400
UNTOLD: list[tuple[Check, object]] = [
    (ActiveCheck(), {"kind": "text", "bytes": HUGE, "parts": 0, "count": 0, "found": [], "tools": {}}),
    (ZipCheck(), {"members": [["a", HUGE, True, "file"]]}),
    (
        CommandCheck.from_expect({"run": ["true"]}),
        {"runs": {"command": asdict(Execution(HUGE, "", ""))}, "there": True},
    ),
]


@falls_without(
    "numbers that can be",
    Removal("checks/evidence.py", " or not abs(value) <= sys.float_info.max:\n", " or value != value:\n"),
)
@pytest.mark.parametrize(("check", "said"), UNTOLD, ids=["active", "zip", "command"])
def test_a_huge_number_causes_no_internal_error(check: Check, said: object) -> None:
    assert not check.judge(told(said)).passed


@falls_without(
    "what many areas cover is searched",
    Removal(
        "xlsx/cover.py",
        "        return bisect_right(self.strips[strip], row) % 2 == 1\n",
        "        return any(area.has(column, row) for area in self.large)\n",
    ),
)
def test_a_workbook_with_a_thousand_large_references_is_checked_quickly() -> None:
    cover = Cover([Area("a", 100 + each, 1, 200 + each, 500_000) for each in range(MOST_LARGE)])
    began = time.process_time()
    assert not any(cover.has((each, 50)) for each in range(100_000))
    assert time.process_time() - began < 4


@falls_without(
    "how much evidence there may be",
    Removal("checks/evidence.py", "    if len(data) >= MAX_REPORT_BYTES:\n", "    if False:\n"),
    cases="text",
)
@no_guard("it is no JSON, whoever reads it", cases="spaces")
@no_guard("the parser itself stops so deep", cases="brackets")
@pytest.mark.parametrize(
    "said",
    [b" " * MAX_REPORT_BYTES, b'"' + b"x" * MAX_REPORT_BYTES + b'"', b"[" * 1_000_000],
    ids=["spaces", "text", "brackets"],
)
def test_endless_evidence_is_refused(said: bytes) -> None:
    for check in (ActiveCheck(), CsvCheck(), JsonCheck(), ZipCheck()):
        assert not check.judge(Evidence(said)).passed
    with pytest.raises((ValueError, RecursionError)):
        read_json(said)


def page(width: int, height: int, pixels: bytes, size: int | None = None) -> Evidence:
    packed = zlib.compress(pixels, 9)
    head = json.dumps({"drawn": [[width, height, size or len(packed)]]}).encode()
    return unpack(head + b"\n" + packed)


@falls_without(
    "no page is larger than announced",
    Removal(
        "checks/evidence.py",
        "inflating.decompress(rest[at : at + size], width * height * 3)",
        "inflating.decompress(rest[at : at + size])",
    ),
)
def test_an_oversized_or_incomplete_page_picture_is_refused() -> None:
    assert len(page(100, 100, bytes(30_000)).pages) == 1
    assert len(page(100, 100, bytes(64 << 20)).pages[0].rgb) == 30_000
    assert page(WIDEST + 1, 1, bytes((WIDEST + 1) * 3)).pages == ()
    assert page(100, 100, b"few").pages == ()
    assert unpack(json.dumps({"drawn": [[100, 100, 50]] * 201}).encode() + b"\n").pages == ()


def archive(name: str, data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr(name, data)
    return made.getvalue()


CARRIED: dict[str, tuple[str, bytes]] = {
    "a bomb": ("a.zip", archive("a.txt", bytes(64 << 20))),
    "a way up": ("a.zip", archive("../../a.txt", b"x")),
    "an absolute name": ("a.zip", archive("/etc/cron.d/a", b"x")),
    "macros": (
        "a.xlsx",
        archive("xl/vbaProject.bin", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "_VBA_PROJECT".encode("utf-16-le")),
    ),
    "a formula": ("a.csv", b"a,b\n=HYPERLINK(1),2\n"),
    "DDE": ("a.csv", b"a,b\n=cmd|'/c calc'!A0,2\n"),
    "a script in a PDF": ("a.pdf", b"%PDF-1.7\n1 0 obj\n<< /S /J#61vaScript /JS (x) >>\nendobj\n%%EOF\n"),
    "a script in a drawing": ("a.svg", b"<svg><script>x</script></svg>"),
    "a program": ("a.docx", b"MZ" + bytes(100)),
    "a second file": ("a.png", b"GIF89a;" + archive("a.txt", b"x")),
    "an entity": ("a.xml", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'),
    "turned letters": ("a.txt", "safe\u202etxt.exe".encode()),
    "an object": ("a.rtf", rb"{\rtf1{\object\objdata 01}}"),
    "a table that begins like a picture": ("a.csv", b"BMW,b\n=cmd|'/c calc'!A0,2\n"),
    "an old document": ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
}


@falls_without(
    "what acts is a fault",
    Removal(
        "checks/active.py",
        "        bad = [each for each in findings.found if each.rule not in self.allow]\n",
        "        bad = [each for each in findings.found if each.rule in self.allow]\n",
    ),
)
@pytest.mark.parametrize("what", CARRIED)
async def test_a_file_with_active_content_passes_no_check(machine: Verifier, what: str) -> None:
    name, data = CARRIED[what]
    made = await machine.look(name, data, "active-content")
    assert not made.passed
    item = Deliverable(name, "x", (RequiredCheck("command", {"run": ["true"]}),))
    assert list_checks(item)[0][0] == "active-content"


@falls_without(
    "a look that is broken off",
    Removal(
        "checks/evidence.py",
        '    return "" if done.ok else f"the inspection program ended with exit code {done.exit_code}"\n',
        '    return ""\n',
    ),
)
def test_a_verifier_that_did_not_exit_is_always_reported() -> None:
    ends = [Done(137, signal=9), Done(1), Done(0, timed_out=True), Done(0, out_of_memory=True), Done(0, truncated=True)]
    assert all(describe_failure(done) for done in ends)
    assert describe_failure(Done(0)) == ""


@falls_without("what acts is a fault")
def test_a_brief_cannot_allow_content_that_could_not_be_scanned() -> None:
    assert not {"archive-bomb", "unreadable"} & set(FAMILIES)
    everything = ActiveCheck(tuple(FAMILIES))
    for family in ("archive-bomb", "unreadable"):
        found = {"kind": "zip", "bytes": 1, "parts": 0, "count": 1, "found": [[family, "", "x"]], "tools": {}}
        assert not everything.judge(told(found)).passed


@falls_without(
    "our modules come last",
    Removal("checks/evidence.py", "sys.path.append(sys.argv[1])\n", "sys.path.insert(0, sys.argv[1])\n"),
)
async def test_a_module_planted_by_a_file_is_not_imported_by_the_verifier(machine: Verifier) -> None:
    desk = machine.shared()
    assert desk is not None
    said = json.dumps({"rows": [["a"], ["1"]], "source": []})
    await desk.write(f"{evidence.FOLDER}/csv.py", f"print({said!r}); raise SystemExit".encode())
    try:
        made = await machine.look("a.csv", b"a,b\n1\n", "csv", rows=1)
    finally:
        await desk.remove(f"{evidence.FOLDER}/csv.py")
    assert [fault for fault in made.faults if "expected 2 cells, found 1" in fault]
