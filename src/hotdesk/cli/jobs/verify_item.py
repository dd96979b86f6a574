"""Verifies one item of a swarm against the swarm's certificate: offline, with the item's proof or all records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hotdesk.cli.jobs.verify_file import Judged, hash_file, open_regular_file
from hotdesk.drive.certificate import LARGEST, Fields
from hotdesk.drive.signing import compute_fingerprint
from hotdesk.drive.swarm_certificate import CONFIDENCE, MAX_PROOF_BYTES, ItemProof, prove, read, read_proof
from hotdesk.errors import BriefError
from hotdesk.event import ItemEnded, from_json

RECORDS = "records.jsonl"
_MAX_RECORDS_BYTES = 1 << 30


def judge_item(
    file: Path, certificate: Path, proof: Path | None, item: str, signers: Mapping[str, str]
) -> tuple[Judged, ItemProof | None]:
    """Check a file against its record, the record against the Merkle root, and the root against trusted keys."""
    with open_regular_file(file), open_regular_file(certificate) as source:
        data = source.read(LARGEST + 1)
    size, sha256 = hash_file(file)
    try:
        claim, public = read(data)
        found = _find_proof(certificate, proof, item)
    except BriefError as e:
        return Judged("failed", str(e)), None
    signer = compute_fingerprint(public)
    if why := _find_fault(claim, found, item, size, sha256):
        return Judged("failed", why, signer), None
    if signer not in signers:
        why = f"signed by an unknown key {signer}; if you trust it, pass --signer {signer}"
        return Judged("unknown signer", why, signer), found
    return Judged("verified", "", signer, signers[signer], claim), found


def _find_fault(claim: Fields, proof: ItemProof, item: str, size: int, sha256: str) -> str:
    """Explain why a file is not a result of a swarm's item; return `""` if it is."""
    record, items = proof.record, claim["items"]
    if record.item != item or record.job != claim["job"]["id"]:
        return f"the proof is for item {record.item} of swarm {record.job}, not for {item} of {claim['job']['id']}"
    if proof.count != items["count"] or record.index != proof.index or not proof.leads_to(items["root"]):
        return f"the record of item {item} is not one of those that the certificate's signature covers"
    if record.outcome != "done":
        return f"the item was quarantined: {record.why}"
    if (size, sha256) not in zip(record.sizes, record.digests, strict=False):
        return f"the item did not deliver this file: its SHA-256 is {sha256}"
    return ""


def _find_proof(certificate: Path, proof: Path | None, item: str) -> ItemProof:
    if proof is not None:
        with open_regular_file(proof) as source:
            return read_proof(source.read(MAX_PROOF_BYTES + 1))
    path = certificate.with_name(RECORDS)
    with open_regular_file(path) as source:
        data = source.read(_MAX_RECORDS_BYTES + 1)
    if len(data) > _MAX_RECORDS_BYTES:
        raise BriefError(f"{path} is larger than 1 GiB; pass the item's proof with --proof instead")
    records = [_read_record(number, line) for number, line in enumerate(data.splitlines(), 1)]
    places = [place for place, each in enumerate(records) if each.item == item]
    if not places:
        raise BriefError(f"{path} has no record of an item {item[:80]!r}; check the name after --item")
    return prove(records, places[0])


def _read_record(number: int, line: bytes) -> ItemEnded:
    try:
        event = from_json(ItemEnded.__name__, line.decode())
    except (ValueError, RecursionError) as e:
        raise BriefError(
            f"line {number} of {RECORDS} is not the record of an item: {str(e)[:200]}; copy the file again, or pass "
            "the item's proof with --proof"
        ) from None
    assert isinstance(event, ItemEnded)
    return event


def list_item_rows(judged: Judged, proof: ItemProof) -> Iterator[tuple[str, str]]:
    claim, record = judged.claim, proof.record
    assert claim is not None
    items, review = claim["items"], claim["review"]
    yield "item", f"{record.item}, {record.index + 1} of {items['count']:,}, input sha256 {record.input}"
    yield "checks", f"{', '.join(record.checks)}, in the clean desk {record.clean}"
    yield "worked at", f"desk {record.desk}, attempt {record.attempt}"
    yield "swarm", f"{claim['job']['id']}: {items['done']:,} items passed, {items['quarantined']:,} in quarantine"
    yield "signed", f"by {judged.signer}, {judged.trusted}; Merkle root {items['root']}"
    if review["reviewed"]:
        share = f"{review['wrong']} of {review['reviewed']} reviewed items were wrong"
        yield (
            "review",
            f"{share}: at most {review['error_bound']:.1%} of all items are wrong, with {CONFIDENCE:.0%} confidence",
        )
    yield (
        "note",
        "a certificate proves what was checked and that this is the checked file, not that its content is true",
    )
