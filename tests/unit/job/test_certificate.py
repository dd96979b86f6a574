"""Tests of a certificate's content, from the checks and the journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.security.certificate_room import (
    BEGUN,
    DESK,
    EXPECT,
    FILE,
    JOB,
    NAME,
    SIGNER,
    claim,
    made,
    passed,
    stock,
    written,
)

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks.seam import DrawnPixels, Fault, Verdict
from hotdesk.checks.verdict_json import make_stored_verdict
from hotdesk.cli.jobs.verify_page import format_page, format_short_page
from hotdesk.config import Config
from hotdesk.desk.image.description import ImageFacts
from hotdesk.drive.certificate import CLAIM, DOMAIN, PROVEN, encode_canonical, fits, read, sign
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.journal import read as read_journal
from hotdesk.drive.keep import Drive
from hotdesk.drive.signing import compute_fingerprint
from hotdesk.errors import BriefError
from hotdesk.event import Amended, Decided, JobBegun, Pending, Thought, WallProven
from hotdesk.job.certificate import describe_claim
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.verify import Candidate
from hotdesk.keys.certify import certify
from hotdesk.walls import WallProof

GOLDEN = Path(__file__).parents[2] / "golden/certificate-v2.json"
FIRST = GOLDEN.with_name("certificate-v1.json")
FOURTH = GOLDEN.with_name("certificate-v4.json")
"""As the second, with the wall that was proven."""


BESIDE = {"rule.py": "78" * 32}


def no_facts(name: str) -> ImageFacts:
    return ImageFacts()


def looked_at(**more: Any) -> Candidate:
    verdict = Verdict(("opens",), (), ("it opens",), {"rows": 2}, {"python": "3.13"}, (DrawnPixels(2, 1, b"\0" * 6),))
    seen = make_stored_verdict(verdict, "sheet", "base", EXPECT, ("the rest",))
    return Candidate(
        Deliverable(NAME, "xlsx", (RequiredCheck("sheet", EXPECT),)), FILE, verdicts=(replace(seen, **more),)
    )


def test_what_a_job_says_has_every_thing_a_check_saw() -> None:
    told: Any = describe_claim(looked_at(), JOB, "container", no_facts, recorded=True)
    assert fits(json.loads(json.dumps(told)), CLAIM)
    (check,) = told["checks"]
    (shown,) = looked_at().verdicts[0].pictures
    assert check["pages"] == [{"height": 1, "sha256": shown.sha256, "size": len(shown.png), "width": 2}]
    assert (check["expect"], check["not_checked"], check["tools"]) == (EXPECT, ["the rest"], {"python": "3.13"})
    assert check["desk"] == {"id": "", "network": False, "sterile": True, "wall": "container"}
    assert told["file"] == {"name": NAME, "sha256": hashlib.sha256(FILE).hexdigest(), "size": len(FILE)}
    assert describe_claim(looked_at(), JOB, "container", no_facts, recorded=False)["brain"] == {"kind": "model"}


def test_a_fault_that_two_checks_of_a_file_find_is_reported_once() -> None:
    candidate = looked_at(faults=(Fault("errors", "A1", "a value", "#REF!"),))
    twice = replace(candidate, verdicts=candidate.verdicts * 2)
    assert twice.objection.count("A1: expected a value") == 1
    assert twice.reason == candidate.reason


def test_a_certificate_claims_no_more_than_it_holds() -> None:
    with pytest.raises(BriefError, match="too large for a certificate"):
        describe_claim(looked_at(values={"x": "x" * (1 << 20)}), JOB, "container", no_facts, recorded=True)


def test_without_a_wall_no_desk_is_called_clean() -> None:
    told: Any = describe_claim(looked_at(), JOB, "local", no_facts, recorded=True)
    assert told["checks"][0]["desk"] == {"id": "", "network": True, "sterile": False, "wall": "local"}
    assert told["checks"][0]["image"] == {"digest": "", "name": "base"}


def test_a_certificate_is_one_line_in_the_one_way_it_can_be_written(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        signed = certify(journal, claim())
    told, public = read(signed)
    assert signed.endswith(b'"}\n')
    assert signed.count(b"\n") == 1
    assert signed.isascii()
    assert signed.startswith(encode_canonical(told)[:-1])
    assert compute_fingerprint(public) == compute_fingerprint(SIGNER.public)


def test_a_certificate_says_where_the_journal_stood_and_the_journal_that_it_was_signed(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        told, _ = read(signed := certify(journal, claim()))
        journal.commit()
    *_, seen, last = read_journal(tmp_path / "keys" / JOURNAL)
    assert told["journal"] == {
        "job": {"hash": seen.hash.hex(), "seq": seen.seq},
        "last": {"hash": seen.hash.hex(), "id": seen.id},
    }
    assert (last.actor, last.name) == ("keys", "Certified")
    assert json.loads(last.data)["certificate"] == hashlib.sha256(signed).hexdigest()


def test_a_certificate_tells_of_every_approval_and_model(tmp_path: Path) -> None:
    more = (
        JobBegun(JOB, "Count the stock.", "cd" * 32, "anthropic:large and chat:small", "uid 0 pid 4711"),
        *BEGUN[1:],
        Thought(JOB, "count", 2, "chat:small", "ab" * 32, 0, 0, 0, 0, 5),
        Pending(JOB, "aa", "amendment", "34" * 32, "ab" * 32, 1 << 50, step="count"),
        Decided(JOB, "aa", "34" * 32, "refused", "uid 7 pid 1"),
        Decided(JOB, "aa", "34" * 32, "approved", "uid 8 pid 1"),
        Pending(JOB, "bb", "question", "56" * 32, "ab" * 32, 1 << 50),
        Decided(JOB, "bb", "56" * 32, "answered", "uid 9 pid 1"),
        Amended(JOB, "99" * 32, ("count",), "ab" * 32),
        passed(),
    )
    with closing(written(tmp_path / "keys", more)) as journal:
        told, _ = read(certify(journal, claim(brain={"kind": "model"})))
    assert told["plan"]["digest"] == "99" * 32
    assert [(each["kind"], each["step"], each["answer"], each["by"]) for each in told["plan"]["approvals"]] == [
        ("plan", "", "approved", "uid 1000 pid 42"),
        ("amendment", "count", "refused", "uid 7 pid 1"),
    ]
    assert told["brain"]["models"] == ["recorded script 1a2b3c4d5e6f", "chat:small"]
    words = "\n".join(format_page(told, NAME, "ab", "trusted by --signer"))
    assert "made by      anthropic:large and chat:small, a model; replies came from" in words
    assert "plan approved by uid 1000 pid 42; amendment count refused by uid 7 pid 1" in words


def test_a_certificate_names_the_address_of_a_model_that_was_not_asked_at_its_vendors(tmp_path: Path) -> None:
    name, place = "anthropic:claude-sonnet-5", "http://127.0.0.1:8099"
    said = Thought(JOB, "count", 1, name, "ab" * 32, 0, 0, 0, 0, 5, address=place)
    by_vendor = Thought(JOB, "count", 2, "openai:gpt-5.4", "ab" * 32, 0, 0, 0, 0, 5)
    begun = JobBegun(JOB, "Count the stock.", "cd" * 32, f"{name}, asked at {place}", "uid 0 pid 4711")
    rest = [event for event in BEGUN[1:] if not isinstance(event, Thought)]
    with closing(written(tmp_path / "keys", [begun, *rest, said, said, by_vendor, passed()])) as journal:
        told, _ = read(certify(journal, claim(brain={"kind": "model"})))
    assert told["brain"]["addresses"] == [{"address": place, "model": name}]
    words = "\n".join(format_page(told, NAME, "ab", "trusted by --signer"))
    assert f"made by      {name}, asked at {place}, a model; replies came from {name}, openai:gpt-5.4" in words
    told["brain"]["name"] = name
    assert f"; {name}, asked at {place}, not at the vendor's own address" in "\n".join(
        format_page(told, NAME, "ab", "x")
    )


def test_events_waiting_to_be_written_count(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", BEGUN)) as journal:
        journal.add(JOB, "owner", passed())
        told, _ = read(certify(journal, claim()))
        assert told["journal"]["job"]["seq"] == len(BEGUN) + 1
        journal.add(JOB, "owner", replace(passed(), outcome="failed"))
        with pytest.raises(BriefError, match="does not record exactly"):
            certify(journal, claim())


def test_an_oversized_certificate_is_not_signed(tmp_path: Path) -> None:
    large = {**claim()["checks"][0], "values": {"x": "x" * (1 << 20)}}
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        with pytest.raises(BriefError, match="more than 1024 KiB"):
            certify(journal, claim(checks=[large]))
        assert journal.waiting == 0


def test_a_certificate_names_the_wall_that_was_proven(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        told, _ = read(certify(journal, claim()))
    desk = told["checks"][0]["desk"]
    assert told["format"] == PROVEN
    assert desk == {
        "boundary": True, "id": DESK, "kernel": "host", "network": False, "platform": "", "sterile": True,
        "version": "crun 1.14.1", "wall": "container",
    }  # fmt: skip
    words = " ".join("\n".join(format_page(told, NAME, "ab", "trusted by --signer")).split())
    assert "wall container (crun 1.14.1; the host's kernel), as verified" in words


def test_what_the_keeper_tells_keys_counts_before_the_journal_has_it(tmp_path: Path) -> None:
    proof = WallProof("gvisor", "sentry", True, "runsc 20240729", "kvm")
    with closing(written(tmp_path / "keys", [*BEGUN, passed()], None)) as journal:
        told, _ = read(certify(journal, claim(), {DESK: proof}))
    desk = told["checks"][0]["desk"]
    assert (desk["wall"], desk["kernel"], desk["platform"]) == ("gvisor", "sentry", "kvm")


def test_the_wall_of_a_desk_with_a_longer_story_is_the_last_that_was_proven(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        journal.add(DESK, "keeper", WallProven(DESK, "container", "host", True, "crun 1.30", ""))
        told, _ = read(certify(journal, claim()))
    assert told["checks"][0]["desk"]["version"] == "crun 1.30"


@pytest.mark.parametrize("golden", [FIRST, GOLDEN, FOURTH], ids=["first", "second", "fourth"])
def test_a_certificate_of_every_format_can_always_be_read(golden: Path) -> None:
    told, public = read(golden.read_bytes())
    assert (told["file"]["name"], compute_fingerprint(public)) == (NAME, compute_fingerprint(SIGNER.public))
    assert "signed" in "".join(format_short_page(told, NAME, "ab", "trusted by --signer"))


def test_a_certificate_is_signed_as_the_golden_one_is() -> None:
    told, _ = read(GOLDEN.read_bytes())
    assert told["checks"][0]["beside"] == BESIDE
    assert f"beside       rule.py, sha256 {BESIDE['rule.py']}" in "\n".join(
        format_short_page(told, NAME, "ab", "trusted by --signer")
    )
    del told["public_key"], told["format"]
    assert sign(told, SIGNER) == GOLDEN.read_bytes()
    told, _ = read(FOURTH.read_bytes())
    del told["public_key"], told["format"]
    assert sign(told, SIGNER) == FOURTH.read_bytes()


def test_a_machine_without_walls_signs_as_before(tmp_path: Path) -> None:
    asked = Thought(JOB, "count", 2, "chat:small", "ab" * 32, 0, 0, 0, 0, 5, address="http://127.0.0.1:8099")
    for more, number in (((), 2), ((asked,), 3)):
        with closing(written(tmp_path / str(number), [*BEGUN, *more, passed()])) as journal:
            told, _ = read(certify(journal, claim(), walled=False))
        assert (told["format"], told["checks"][0]["desk"]["wall"]) == (number, "container")


def test_neither_format_has_the_fields_of_the_other() -> None:
    for golden, other in ((FIRST, 2), (GOLDEN, 1), (GOLDEN, 4), (FOURTH, 2), (FOURTH, 3)):
        told, _ = read(golden.read_bytes())
        body = encode_canonical({**told, "format": other})
        signature = SIGNER.sign(DOMAIN + body).hex().encode()
        with pytest.raises(BriefError, match="a field is missing, unknown"):
            read(body[:-1] + b',"signature":"' + signature + b'"}\n')


@pytest.mark.slow
async def test_a_certificate_has_the_digest_of_the_check_that_was_run(machine: LocalMachine, tmp_path: Path) -> None:
    rule = b'import json; print(json.dumps({"faults": [], "held": ["fine"], "values": {}}))'
    (tmp_path / "rule.py").write_bytes(rule)
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.txt").write_bytes(b"a")
    expect = {"file": "rule.py", "beside": ["more"]}
    receipt = await made(machine, stock(tmp_path, RequiredCheck("custom", expect)), FILE)
    assert receipt.outcome == "done", receipt.why
    drive = Drive(machine.config.lib / "drive")
    (kept,) = drive.ls(who=OPERATOR)
    told, _ = read(drive.read_certificate(kept))
    listed = f"{hashlib.sha256(b'a').hexdigest()}  a.txt\n"
    assert [each["beside"] for each in told["checks"]] == [
        {},
        {"rule.py": hashlib.sha256(rule).hexdigest(), "more": hashlib.sha256(listed.encode()).hexdigest()},
    ]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    async with local_machine(Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")) as made:
        yield made


@pytest.mark.slow
async def test_a_job_keeps_its_certificate_beside_what_it_made(machine: LocalMachine, tmp_path: Path) -> None:
    receipt = await made(machine, stock(tmp_path, RequiredCheck("sheet", EXPECT)), FILE)
    assert receipt.outcome == "done", receipt.why
    drive = Drive(machine.config.lib / "drive")
    (kept,) = drive.ls(who=OPERATOR)
    told, _ = read(drive.read_certificate(kept))
    assert (told["file"]["sha256"], told["job"]["id"]) == (kept.sha256, receipt.job)
    assert told["brain"]["kind"] == "script"
    assert [each["check"] for each in told["checks"]] == ["active-content", "sheet"]
    assert told["checks"][1]["values"]["rows"] == 2
    assert [(each.path, each.certificate) for each in receipt.certified] == [(NAME, kept.certificate)]
    for told_by in (format_page, format_short_page):
        assert "NOT in a clean desk: wall local" in "\n".join(told_by(told, NAME, "ab", "this machine's own"))


def test_a_short_certificate_lists_what_was_not_checked() -> None:
    told, _ = read(FIRST.read_bytes())
    first = told["checks"][0]
    unseen = [f"thing {number}" for number in range(60)]
    told["checks"] = [{**first, "held": ["much\nof it"] * 99, "not_checked": unseen}, {**first, "not_checked": []}]
    said = list(format_short_page(told, "other.xlsx", "ab", "trusted by --signer"))
    assert [line[15:] for line in said if line.startswith("  NOT CHECKED")] == [
        *unseen,
        'anything that is not listed under "looked for"',
    ]
    assert "much of it; much of it" in said[4]
    assert said[6].endswith(" …: see --all")
    assert "it was certified under the name Stock.xlsx; this file is called other.xlsx" in said[1]
    assert "a SCRIPT" in said[3]
    assert all(line.startswith("  ") and len(line) < 130 and "\n" not in line for line in said)
    assert len(said) == 70
