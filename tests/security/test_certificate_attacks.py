"""Attacks on certificates: another file's, forged, swapped, of an unknown signer, and for what was never verified."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brief.brief import RequiredCheck
from hotdesk.cli.jobs import verify
from hotdesk.cli.jobs.verify import Judged, judge
from hotdesk.config import Config
from hotdesk.drive.certificate import DOMAIN, LARGEST, SUFFIX, digest_beside, encode_canonical, encode_public_key
from hotdesk.drive.chain import encode_statement
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.journal import Journal, read
from hotdesk.drive.keep import Drive
from hotdesk.drive.signing import Signer, compute_fingerprint
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.event import (
    Certified,
    Event,
    ImageSigned,
    JobBegun,
    JobEnded,
    Opened,
    Rescoped,
    Resumed,
    SentBack,
    WallProven,
    to_json,
)
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.keys.certify import certify
from hotdesk.keys.process import HEARD
from tests.security.certificate_room import (
    BEGUN,
    DESK,
    EXPECT,
    FILE,
    HELD,
    JOB,
    NAME,
    OPENED,
    ROWS,
    SIGNER,
    STRANGER,
    claim,
    made,
    passed,
    stock,
    workbook,
    written,
)
from tests.security.guards import Removal, falls_without, no_guard

PINNED = {compute_fingerprint(SIGNER.public): "trusted by --signer"}
STEERING = "\x1b]0;owned\x07\x1b[2J\u202eDEIFIREV\n  signed by  everybody\r"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        yield journal


@pytest.fixture
def signed(journal: Journal) -> bytes:
    return certify(journal, claim())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(FILE)
    return tmp_path / NAME


def judged(place: Path, proof: bytes, signers: dict[str, str] | None = None) -> Judged:
    path = place.with_name(NAME + SUFFIX)
    path.write_bytes(proof)
    return judge(place, path, PINNED if signers is None else signers)


def signed_anew(told: dict[str, Any], signer: Signer, domain: bytes = DOMAIN) -> bytes:
    return sealed(encode_canonical({**told, "public_key": encode_public_key(signer.public)}), signer, domain)


def sealed(body: bytes, signer: Signer, domain: bytes = DOMAIN) -> bytes:
    return body[:-1] + b',"signature":"' + signer.sign(domain + body).hex().encode() + b'"}\n'


def content(proof: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(proof)
    del told["signature"]
    return told


def leaves(told: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(told, dict):
        for key, inner in told.items():
            yield from leaves(inner, (*at, key))
    elif isinstance(told, list):
        for place, inner in enumerate(told):
            yield from leaves(inner, (*at, place))
    else:
        yield at


def changed(told: Any, at: tuple[str | int, ...]) -> Any:
    if not at:
        return f"{told}x" if isinstance(told, str) else (told or 0) + 1
    copy: Any = dict(told) if isinstance(told, dict) else list(told)
    copy[at[0]] = changed(told[at[0]], at[1:])
    return copy


# -- the file, the certificate, the signature ----------------------------------------------------------------------


@no_guard("a control: it holds")
def test_the_file_with_its_certificate_is_verified(place: Path, signed: bytes) -> None:
    assert judged(place, signed).verdict == "verified"


@falls_without(
    "the file that was certified",
    Removal(
        "jobs/verify.py",
        '    if (size, sha256) != (claim["file"]["size"], claim["file"]["sha256"]):\n',
        "    if size < 0:\n",
    ),
)
@pytest.mark.parametrize(
    "data",
    [FILE[:-1] + bytes([FILE[-1] ^ 1]), FILE[:-1], FILE + b"\0", b"", workbook(total=13.0)],
    ids=["a bit", "a byte less", "a byte more", "nothing", "another workbook"],
)
def test_another_file_is_not_the_certified_one(place: Path, signed: bytes, data: bytes) -> None:
    place.write_bytes(data)
    found = judged(place, signed)
    assert (found.verdict, found.claim) == ("failed", None)


@falls_without(
    "the signature of a certificate",
    Removal(
        "drive/certificate.py",
        "    if not is_signed(public, DOMAIN + body, bytes.fromhex(ending[1].decode())):\n",
        "    if not body:\n",
    ),
)
def test_no_value_of_a_certificate_can_be_changed(place: Path, signed: bytes) -> None:
    told = json.loads(signed)
    places = list(leaves(told))
    assert len(places) > 50
    for at in places:
        found = judged(place, encode_canonical(changed(told, at)) + b"\n")
        assert (found.verdict, found.claim) == ("failed", None), at


@falls_without("the signature of a certificate")
def test_no_byte_of_a_certificate_can_be_changed(place: Path, signed: bytes) -> None:
    for at in range(0, len(signed), 7):
        forged = signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :]
        assert judged(place, forged).verdict == "failed", at


@no_guard("without its end there is no signature that could be held")
@pytest.mark.parametrize("size", [0, 1, 2, 147, 148, 500, -2, -1])
def test_a_truncated_certificate_is_invalid(place: Path, signed: bytes, size: int) -> None:
    assert judged(place, signed[:size]).verdict == "failed"


@falls_without("the signature of a certificate")
def test_a_signature_of_something_else_is_invalid(place: Path, journal: Journal, signed: bytes) -> None:
    body = encode_canonical(content(signed))
    other = certify(journal, claim(hotdesk={"architecture": "x86_64", "version": "0.1.0"}))
    head = SIGNER.sign(encode_statement(JOB, 1, b"\0" * 32)).hex().encode()
    for signature in (other[-131:-3], head, b"0" * 128, SIGNER.sign(body).hex().encode()):
        assert judged(place, body[:-1] + b',"signature":"' + signature + b'"}\n').verdict == "failed"


@falls_without("the signature of a certificate")
@pytest.mark.parametrize("domain", [b"", b"hotdesk-identity 1 ", b"hotdesk-certificate 2\n"], ids=range(3))
def test_a_signature_made_for_another_purpose_is_not_valid_for_a_certificate(
    place: Path, signed: bytes, domain: bytes
) -> None:
    assert judged(place, signed_anew(content(signed), SIGNER, domain)).verdict == "failed"


@falls_without(
    "a signer one believes",
    Removal("jobs/verify.py", "    if signer not in signers:\n", "    if not signer:\n"),
    Removal("jobs/verify.py", "signer, signers[signer], claim)", 'signer, "", claim)'),
)
def test_a_certificate_of_an_untrusted_signer_is_invalid(place: Path, signed: bytes) -> None:
    found = judged(place, signed_anew(content(signed), STRANGER))
    assert (found.verdict, found.claim) == ("unknown signer", None)
    assert compute_fingerprint(STRANGER.public) in found.why
    assert "VERIFIED" not in "".join(verify.format_judged(place, found))


@falls_without("the signature of a certificate")
def test_a_key_inside_a_certificate_does_not_make_its_signature_valid(place: Path, signed: bytes) -> None:
    for old, new in ((SIGNER, STRANGER), (STRANGER, SIGNER)):
        proof = signed_anew(content(signed), old)
        forged = proof.replace(encode_public_key(old.public).encode(), encode_public_key(new.public).encode())
        assert judged(place, forged).verdict == "failed"


@falls_without("a signer one believes")
def test_without_trusted_signers_no_certificate_is_valid(place: Path, signed: bytes) -> None:
    assert judged(place, signed, {}).verdict == "unknown signer"


def twice(body: bytes) -> bytes:
    return body.replace(b'"format":4', b'"format":4,"format":4')


def hidden(body: bytes) -> bytes:
    return body.replace(b'"file":{', b'"file":{"sha256":"' + b"0" * 64 + b'",')


STRANGE: dict[str, Callable[[bytes], bytes]] = {
    "a key twice": twice,
    "a hash twice": hidden,
    "spaces": lambda body: body.replace(b'":', b'": ', 1),
    "a line's end": lambda body: b"\n" + body,
    "another order": lambda body: re.sub(rb'("name":"Stock.xlsx"),("sha256":"\w{64}")', rb"\2,\1", body),
    "one field more": lambda body: b'{"a":1,' + body[1:],
    "one field less": lambda body: body.replace(b'"hotdesk":{"architecture":"aarch64","version":"0.1.0"},', b""),
    "another format": lambda body: body.replace(b'"format":4', b'"format":5'),
    "a format that is true": lambda body: body.replace(b'"format":4', b'"format":true'),
    "a number for a text": lambda body: body.replace(b'"version":"0.1.0"', b'"version":1'),
    "no number": lambda body: body.replace(b'"total":12.0', b'"total":NaN'),
    "a number beyond all": lambda body: body.replace(b'"total":12.0', b'"total":1e999'),
    "a number otherwise": lambda body: body.replace(b'"total":12.0', b'"total":12.00'),
    "no ASCII": lambda body: body.replace(b"Stock.xlsx", "Stöck.xlsx".encode()),
    "depth": lambda body: body.replace(b'"rows":2,"total"', b'"rows":' + b"[" * 90_000 + b"]" * 90_000 + b',"total"'),
    "too much": lambda body: body.replace(b'"held":["', b'"held":["' + b"x" * LARGEST),
}


ANY_SPELLING = Removal(
    "drive/certificate.py",
    "not fits(fields, shape) or encode_canonical(fields) != body:\n",
    "not fits(fields, shape):\n",
)


@falls_without(
    "one way to write a certificate", ANY_SPELLING, cases="spaces | a line's end | another order | a number otherwise"
)
@falls_without(
    "no key twice",
    ANY_SPELLING,
    Removal("hotdesk/strict.py", "    if len(table) != len(pairs):\n", "    if not pairs:\n"),
    cases="a key twice | a hash twice",
)
@falls_without(
    "certificates are ASCII",
    ANY_SPELLING,
    Removal("drive/certificate.py", 'data.decode("ascii")', "data.decode()"),
    cases="no ASCII",
)
@falls_without(
    "exactly these fields",
    Removal(
        "drive/certificate.py",
        "not fits(fields, shape) or encode_canonical(fields) != body:\n",
        "encode_canonical(fields) != body:\n",
    ),
    cases="one field more | one field less | a number for a text | a format that is true",
)
@falls_without(
    "a format one knows",
    Removal(
        "drive/certificate.py",
        'if fields.get("format") == number), None)\n',
        "if number), None)\n    shape = _FORMATS[PROVEN]\n",
    ),
    cases="another format",
)
@falls_without(
    "numbers that are some",
    Removal("hotdesk/strict.py", "parse_constant=_refuse_constant, ", ""),
    cases="no number",
)
@falls_without(
    "numbers that can be written again",
    Removal(
        "hotdesk/strict.py",
        "    if not math.isfinite(number := float(text)):\n",
        "    if (number := float(text)) is None:\n",
    ),
    cases="a number beyond all",
)
@falls_without(
    "how deep a certificate is",
    Removal("hotdesk/strict.py", "    except (ValueError, RecursionError) as e:\n", "    except ValueError as e:\n"),
    cases="depth",
)
@falls_without(
    "how large a certificate is",
    Removal("drive/certificate.py", "    if len(data) > LARGEST:\n", "    if not data:\n"),
    Removal("jobs/verify.py", "source.read(LARGEST + 1)", "source.read()"),
    cases="too much",
)
@pytest.mark.parametrize("strange", STRANGE)
def test_a_non_canonical_certificate_is_invalid_even_with_a_valid_signature(
    place: Path, signed: bytes, strange: str
) -> None:
    body = encode_canonical(content(signed))
    assert judged(place, sealed(body, SIGNER)).verdict == "verified"
    assert STRANGE[strange](body) != body
    found = judged(place, sealed(STRANGE[strange](body), SIGNER))
    assert (found.verdict, found.claim) == ("failed", None)


@falls_without(
    "certificates on a terminal",
    Removal(
        "jobs/verify.py",
        "    return [make_printable(each) for each in (head, *text)]\n",
        "    return [each for each in (head, *text)]\n",
    ),
)
def test_no_text_of_a_certificate_controls_the_terminal(place: Path, signed: bytes) -> None:
    told = content(signed)
    check = {**told["checks"][0], "held": [STEERING], "values": {STEERING: STEERING}, "tools": {STEERING: STEERING}}
    told = {**told, "checks": [check], "brain": {**told["brain"], "name": STEERING}}
    for whole in (True, False):
        lines = verify.format_judged(place, judged(place, signed_anew(told, SIGNER)), whole=whole)
        assert all(line.isprintable() for line in lines)
        assert sum(line.startswith("  signed") for line in lines) == 1


# -- what keys sign ------------------------------------------------------------------------------------------------

OTHER = "i" + "e5f6" * 5
FAILED = replace(passed(), outcome="failed", findings=("B4 shows 13",))
WRITTEN = JobBegun(JOB, "Count the stock.", "cd" * 32, "written script 1a2b3c4d5e6f", "uid 0 pid 4711")
UNPROVEN: dict[str, tuple[list[Event], dict[str, Any], str]] = {
    "no job": ([], {}, "never started"),
    "another job": ([*BEGUN, passed()], {"job": OTHER}, "never started"),
    "nothing verified": ([*BEGUN], {}, "does not record"),
    "a failed check": ([*BEGUN, FAILED], {}, "sheet failed"),
    "failed afterwards": ([*BEGUN, passed(), FAILED], {}, "does not record"),
    "one of two failed": (
        [*BEGUN, FAILED, passed(check="png")],
        {"checks": [{**claim()["checks"][0], "check": each} for each in ("sheet", "png")]},
        "sheet failed",
    ),
    "only the one that passed": (
        [*BEGUN, FAILED, passed(check="png")],
        {"checks": [{**claim()["checks"][0], "check": "png"}]},
        "does not record",
    ),
    "another name": ([*BEGUN, passed(path="Other.xlsx")], {}, "does not record"),
    "other bytes": ([*BEGUN, passed(sha256="ab" * 32)], {}, "another SHA-256"),
    "another check": ([*BEGUN, passed(check="png")], {}, "does not record"),
    "no check": ([*BEGUN, passed()], {"checks": []}, "does not record"),
    "a check more": ([*BEGUN, passed()], {"checks": claim()["checks"] * 2}, "does not record"),
    "other findings": ([*BEGUN, replace(passed(), findings=HELD[:1])], {}, "another result"),
    "another rule": (
        [*BEGUN, replace(passed(), beside=digest_beside({"rule.py": "12" * 32}))],
        {"checks": [{**claim()["checks"][0], "beside": {"rule.py": "34" * 32}}]},
        "other input files",
    ),
    "a rule nobody ran": (
        [*BEGUN, passed()],
        {"checks": [{**claim()["checks"][0], "beside": {"rule.py": "34" * 32}}]},
        "other input files",
    ),
    "no rule where there was one": (
        [*BEGUN, replace(passed(), beside=digest_beside({"rule.py": "12" * 32}))],
        {},
        "other input files",
    ),
    "sent back since": ([*BEGUN, passed(), SentBack(JOB, "count", NAME, "cd" * 32, "ab" * 32)], {}, "does not record"),
    "resumed since": ([*BEGUN, passed(), Resumed(JOB, "uid 0 pid 1")], {}, "does not record"),
    "a job that is over": ([*BEGUN, passed(), JobEnded(JOB, "failed")], {}, "has ended"),
    "a desk with a way out": ([*BEGUN, Opened(DESK, "ab", ("read a.test",), ()), passed()], {}, "had network access"),
    "a desk with a secret": ([*BEGUN, Opened(DESK, "ab", (), ("s@a.test",)), passed()], {}, "had network access"),
    "a desk with an empty way out": ([*BEGUN, Opened(DESK, "ab", (), ()), passed()], {}, "had network access"),
    "a desk with a way out later": (
        [*BEGUN, Rescoped(DESK, "ab", ("read a.test",), ()), passed()],
        {},
        "had network access",
    ),
    "a model, where there was a script": (
        [WRITTEN, *BEGUN[1:], passed()],
        {"brain": {"kind": "model"}},
        "came from a recording",
    ),
    "a model, where an older journal has a script": (
        [*BEGUN, passed()],
        {"brain": {"kind": "model"}},
        "came from a recording",
    ),
    "fields of its own": ([*BEGUN, passed()], {"at": 1}, "fields are unknown, missing"),
    "no size": ([*BEGUN, passed()], {"file": {"name": NAME, "sha256": "ab" * 32}}, "fields are unknown, missing"),
}


@falls_without(
    "a job that is under way",
    Removal("keys/certify.py", "    if story.begun is None or story.ended:\n", "    if not claim:\n"),
    cases="no job | another job | a job that is over",
)
@falls_without(
    "the checks that looked",
    Removal(
        "keys/certify.py",
        '    if not looks or [each.check for each in looks] != [each["check"] for each in claim["checks"]]:\n',
        "    if not claim:\n",
    ),
    cases="""
    nothing verified | failed afterwards | only the one that passed | another name | another check | no check |
    a check more
    """,
)
@falls_without(
    "checks that passed",
    Removal("keys/certify.py", 'if each.outcome != "passed"), None):\n', 'if each.outcome == "unknown"), None):\n'),
    cases="a failed check | one of two failed",
)
@falls_without(
    "the bytes that were looked at",
    Removal(
        "keys/certify.py",
        '    if any(each.sha256 != claim["file"]["sha256"] for each in looks):\n',
        "    if not claim:\n",
    ),
    cases="other bytes",
)
@falls_without(
    "what checks found",
    Removal(
        "keys/certify.py",
        '    if any([*look.findings] != each["held"] for look, each in zip(looks, claim["checks"], strict=True)):\n',
        "    if not claim:\n",
    ),
    cases="other findings",
)
@falls_without(
    "what checks had beside them",
    Removal("keys/certify.py", "    if any(look.beside != digest_beside(", "    if any(not look and digest_beside("),
    cases="another rule | a rule nobody ran | no rule where there was one",
)
@falls_without(
    "what was seen since the worker worked",
    Removal("keys/certify.py", "            case SentBack() | Resumed():\n                self.looks = []\n", ""),
    cases="sent back since | resumed since",
)
@falls_without(
    "checks without a way out",
    Removal("keys/certify.py", "and (event.scope or event.rules or event.grants)\n", "and not event.desk\n"),
    cases="a desk with a way out | a desk with a secret | a desk with an empty way out",
)
@falls_without(
    "checks whose desk gets no way out later",
    Removal("keys/certify.py", "if isinstance(event, Rescoped) or (", "if ("),
    cases="a desk with a way out later",
)
@falls_without(
    "scripts are called so",
    Removal(
        "keys/certify.py",
        '    if claim["brain"]["kind"] == "model" and story.begun.brain.startswith(RECORDED):\n',
        "    if not claim:\n",
    ),
    cases="a model, where there was a script | a model, where an older journal has a script",
)
@falls_without(
    "what an owner may claim",
    Removal(
        "keys/certify.py",
        "    if not isinstance(claim, dict) or not fits(claim, CLAIM):\n",
        "    if not isinstance(claim, dict):\n",
    ),
    cases="fields of its own | no size",
)
@pytest.mark.parametrize("unproven", UNPROVEN)
def test_keys_sign_only_what_the_journal_records(tmp_path: Path, unproven: str) -> None:
    events, other, why = UNPROVEN[unproven]
    with closing(written(tmp_path / "keys", events)) as journal:
        with pytest.raises(BriefError, match=why):
            certify(journal, claim(**other))
        journal.commit()
        assert not [row for row in read(tmp_path / "keys" / JOURNAL) if row.name == Certified.__name__]


@falls_without(
    "checks in clean desks", Removal("keys/certify.py", "    if walled and not all(", "    if not walled and not all(")
)
@pytest.mark.parametrize("desk", [{"sterile": False}, {"network": True}], ids=["used", "with a network"])
def test_keys_sign_only_what_was_verified_in_a_clean_desk(journal: Journal, desk: dict[str, bool]) -> None:
    check = claim()["checks"][0]
    with pytest.raises(BriefError, match="a clean desk"):
        certify(journal, claim(checks=[{**check, "desk": {**check["desk"], **desk}}]))


@falls_without(
    "a journal that is whole", Removal("drive/journal.py", " or row.hash != compute_digest(row, before):\n", ":\n")
)
def test_keys_sign_nothing_from_a_modified_journal(tmp_path: Path) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, FAILED])) as journal:
        with closing(sqlite3.connect(tmp_path / "keys" / JOURNAL)) as db, db:
            db.execute("UPDATE events SET data = ? WHERE name = 'Verified'", (to_json(passed()),))
        with pytest.raises(HostError, match="was changed since it was written"):
            certify(journal, claim())


@falls_without(
    "who says that something was signed",
    Removal(
        "keys/process.py",
        "*(kind for kind in get_args(JobEvent) if kind not in (Certified, ImageSigned)),\n",
        "*get_args(JobEvent),\n",
    ),
)
def test_owner_and_door_cannot_record_that_something_was_signed() -> None:
    assert not [actor for actor, kinds in HEARD.items() if {Certified, ImageSigned} & {*kinds}]


@falls_without("what an owner may claim")
def test_job_plan_brain_and_time_in_a_certificate_come_from_the_journal(journal: Journal) -> None:
    told = content(certify(journal, claim()))
    assert told["job"]["id"] == JOB
    name = BEGUN[0].brain  # type: ignore[union-attr]
    assert told["brain"] == {"addresses": [], "kind": "script", "models": [name], "name": name}
    assert [each["by"] for each in told["plan"]["approvals"]] == ["uid 1000 pid 42"]
    assert told["checks"][0]["desk"]["id"] == DESK
    with pytest.raises(BriefError, match="fields are unknown, missing"):
        certify(journal, claim(public_key=encode_public_key(STRANGER.public)))


# -- the wall around a check ---------------------------------------------------------------------------------------

STRONG = replace(OPENED, wall="microvm", kernel="own", version="qemu 9.2", platform="kvm")


def wall_of(proof: bytes) -> tuple[str, str, str]:
    desk = content(proof)["checks"][0]["desk"]
    return desk["wall"], desk["kernel"], desk["version"]


@falls_without(
    "walls that a keeper proved",
    Removal(
        "keys/certify.py",
        '    return {**desk, **facts, "id": name, "version": proof.version, "wall": proof.wall}\n',
        '    return {**facts, "id": name, "version": proof.version, "wall": proof.wall, **desk, "id": name}\n',
    ),
)
def test_a_job_cannot_make_its_certificate_name_a_stronger_wall(journal: Journal) -> None:
    check = claim()["checks"][0]
    forged = {**check, "desk": {**check["desk"], "wall": "microvm"}}
    assert wall_of(certify(journal, claim(checks=[forged]))) == ("container", "host", "crun 1.14.1")


@falls_without(
    "the keeper's word on walls",
    Removal("keys/certify.py", " if row.actor == KEEPER else None", ""),
)
@pytest.mark.parametrize("actor", ["owner", "door", "keys"])
def test_only_the_keeper_attests_the_wall(tmp_path: Path, actor: str) -> None:
    with closing(written(tmp_path / "keys", [*BEGUN, passed()])) as journal:
        journal.add(DESK, actor, WallProven(DESK, "microvm", "own", True, "qemu 9.2", "kvm"))
        journal.commit()
        assert wall_of(certify(journal, claim())) == ("container", "host", "crun 1.14.1")


@falls_without("the keeper's word on walls", cases="an owner's word")
@falls_without(
    "a wall that was proven",
    Removal("keys/certify.py", "    if walled and walls.keys() != found.keys():\n", "    if not walled:\n"),
    cases="nobody's word | a desk opened by an earlier version",
)
@pytest.mark.parametrize(
    ("opened", "actor"),
    [(None, "keeper"), (STRONG, "owner"), (replace(OPENED, wall=""), "keeper")],
    ids=["nobody's word", "an owner's word", "a desk opened by an earlier version"],
)
def test_keys_sign_nothing_that_was_verified_behind_an_unproven_wall(
    tmp_path: Path, opened: Opened | None, actor: str
) -> None:
    with (
        closing(written(tmp_path / "keys", [*BEGUN, passed()], opened, actor)) as journal,
        pytest.raises(BriefError, match="the keeper did not verify the wall of desk"),
    ):
        certify(journal, claim())


@falls_without(
    "who says which wall stands",
    Removal(
        "keys/process.py",
        "(RootAct, RootActEnded, Proven, Burnt, Used, TookOver, HandedBack),\n",
        "(RootAct, RootActEnded, Proven, Burnt, Used, TookOver, HandedBack, Opened, WallProven),\n",
    ),
)
def test_owner_and_door_cannot_record_which_wall_is_in_place() -> None:
    assert not [actor for actor, kinds in HEARD.items() if {Opened, WallProven} & {*kinds}]


# -- the line of a job ---------------------------------------------------------------------------------------------


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    async with local_machine(Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")) as made:
        yield made


WRONG = {
    "wrong": workbook((("nuts", 5.0), ("bolts", 7.0)), total=13.0),
    "stale": workbook(ROWS[:1], total=5.0),
    "corrupt": FILE.replace(b"<sheetData>", b"<sheetDatb>"),
    "truncated": FILE[: len(FILE) // 2],
}


@pytest.mark.sample(1)
@falls_without(
    "checks before certificates",
    Removal(
        "job/verify.py",
        "        return not self.lacks and all(each.passed for each in self.verdicts)\n",
        "        return True\n",
    ),
)
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_deliverable_that_fails_its_check_gets_no_certificate(
    machine: LocalMachine, tmp_path: Path, wrong: str
) -> None:
    receipt = await made(machine, stock(tmp_path, RequiredCheck("sheet", EXPECT)), WRONG[wrong])
    assert (receipt.outcome, receipt.kept, receipt.certified) == ("failed", (), ())
    assert receipt.checks[-1].outcome == "failed"  # the check for active content comes first and may pass
    assert not (machine.config.lib / "drive/blobs").exists() or not list((machine.config.lib / "drive/blobs").iterdir())


@falls_without(
    "no check, no certificate",
    Removal("job/run.py", "        if not candidate.item.checks:\n", "        if not candidate.item.path:\n"),
)
async def test_a_deliverable_without_a_check_gets_no_certificate(machine: LocalMachine, tmp_path: Path) -> None:
    receipt = await made(machine, stock(tmp_path), FILE)
    assert (receipt.outcome, receipt.certified) == ("done", ())
    (kept,) = Drive(machine.config.lib / "drive").ls(who=OPERATOR)
    assert kept.certificate == ""


@falls_without(
    "names of certificates",
    Removal("job/start.py", "        if item.path.endswith(SUFFIX):\n", "        if not item.path:\n"),
)
async def test_a_deliverable_cannot_have_the_name_of_a_certificate(machine: LocalMachine, tmp_path: Path) -> None:
    job = stock(tmp_path, RequiredCheck("sheet", EXPECT))
    forged = replace(job.deliverables[0], path=NAME + SUFFIX, checks=())
    with pytest.raises(HotdeskError, match="is reserved for a certificate"):
        await made(machine, replace(job, deliverables=(*job.deliverables, forged)), FILE)
