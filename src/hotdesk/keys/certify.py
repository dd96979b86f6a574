"""Signs the evidence of a deliverable if the journal confirms it: the job's process alone is not trusted.

That process reports the findings of each check. The job, brief, plan, brain and approvals, the desk of each check and
that it passed are taken from the journal. The wall of that desk is the one that its keeper proved.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.drive.certificate import CLAIM, Fields, compute_digest, digest_beside, fits, sign
from hotdesk.drive.journal import Journal
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import (
    Amended,
    Certified,
    Decided,
    Event,
    JobBegun,
    JobEnded,
    Opened,
    Pending,
    Planned,
    Rescoped,
    Resumed,
    SentBack,
    Thought,
    Verified,
    VisionAsked,
    WallProven,
    find_proof,
)
from hotdesk.event.desk import KEEPER
from hotdesk.walls import WallProof

_NO_PROOFS: Mapping[str, WallProof] = {}
_OF_WALLS = (Opened.__name__, Rescoped.__name__, WallProven.__name__)
RECORDED = ("written ", "recorded ", "replay of ", "adversary")
"""Name prefixes of brains whose decisions are fixed beforehand; older journals have `recorded script …`."""
TOLD = {
    kind.__name__
    for kind in (
        JobBegun,
        Planned,
        Amended,
        Thought,
        VisionAsked,
        Pending,
        Decided,
        Verified,
        SentBack,
        Resumed,
        JobEnded,
    )
}
"""Names of the events that a `CertifiedStory` is made of."""


@dataclass(slots=True)
class CertifiedStory:
    """The journal's account of a job, as far as its certificate needs it."""

    begun: JobBegun | None = None
    plan: str = ""
    models: dict[str, None] = field(default_factory=dict)
    """Models that replied, in the order of their first reply."""
    addresses: dict[tuple[str, str], None] = field(default_factory=dict)
    """Pairs of model and address, for models that were not called at their vendor's address."""
    pending: dict[str, Pending] = field(default_factory=dict)
    approvals: dict[str, Fields] = field(default_factory=dict)
    looks: list[Verified] = field(default_factory=list)
    """Checks since the worker last worked: earlier ones were of a file that may have changed."""
    ended: bool = False

    def take(self, event: Event, at: int) -> None:
        match event:
            case JobBegun():
                self.begun = event
            case Planned(findings=()) | Amended():
                self.plan = event.digest
            case VisionAsked():
                self.models[event.model] = None
            case Thought():
                self.models[event.model] = None
                if event.address:
                    self.addresses[event.model, event.address] = None
            case Pending():
                self.pending[event.id] = event
            case Decided():
                self.decide(event, at)
            case Verified():
                self.looks.append(event)
            case SentBack() | Resumed():
                self.looks = []
            case JobEnded():
                self.ended = True

    def decide(self, event: Decided, at: int) -> None:
        """Record a decision, the first one for each request. Answers to questions approve nothing."""
        pending = self.pending.get(event.id)
        if pending is not None and pending.kind != "question":
            approval = {"answer": event.answer, "at": at, "by": event.by, "digest": event.digest}
            self.approvals.setdefault(event.id, {**approval, "kind": pending.kind, "step": pending.step})


def certify(
    journal: Journal, claim: object, proofs: Mapping[str, WallProof | None] = _NO_PROOFS, *, walled: bool = True
) -> bytes:
    """Sign the evidence of a deliverable from a job's process; the event is written with the next commit.

    `proofs` are the keepers' proofs of desks' walls, which reach the journal a little later. Raise `BriefError` with
    the reason if the evidence is not signed. Only a machine without walls signs evidence from a desk without a proven
    wall.
    """
    if not isinstance(claim, dict) or not fits(claim, CLAIM):
        raise BriefError("malformed request for a certificate: fields are unknown, missing or of the wrong type")
    journal.commit()
    job, path = claim["job"], claim["file"]["name"]
    story = tell(journal, job)
    looks = [each for each in story.looks if each.path == path]
    name = make_printable(path[:200])
    if walled and not all(each["desk"]["sterile"] and not each["desk"]["network"] for each in claim["checks"]):
        raise BriefError(f"{name} gets no certificate: it was not checked in a clean desk without network")
    if why := explain_refusal(story, looks, claim):
        raise BriefError(f"{name} gets no certificate: {why}")
    found = {each.desk: read_wall(journal, each.desk) or proofs.get(each.desk) for each in looks}
    walls = {desk: proof for desk, proof in found.items() if proof is not None}
    if walled and walls.keys() != found.keys():
        raise BriefError(
            f"{name} gets no certificate: the keeper did not verify the wall of desk "
            f"{min(found.keys() - walls.keys())}, in which the file was checked"
        )
    signed = sign(_build_certificate(journal, story, looks, claim, walls if walled else {}), journal.signer)
    event = Certified(job, path, claim["file"]["sha256"], hashlib.sha256(signed).hexdigest())
    journal.add(job, "keys", event)
    return signed


def tell(journal: Journal, job: str) -> CertifiedStory:
    """Read the journal's account of a job, after verifying its chain."""
    story = CertifiedStory()
    for row in journal.read_verified(job):
        if row.name in TOLD:
            story.take(row.read_event(), row.at)
    return story


def explain_refusal(story: CertifiedStory, looks: list[Verified], claim: Fields) -> str:
    """Return the reason why evidence is not signed, or an empty string if it may be."""
    if story.begun is None or story.ended:
        return f"job {claim['job']} {'never started' if story.begun is None else 'has ended'}, by its journal"
    if not looks or [each.check for each in looks] != [each["check"] for each in claim["checks"]]:
        return "the journal does not record exactly the checks of the file that the request for the certificate lists"
    if failed := next((each for each in looks if each.outcome != "passed"), None):
        return f"the check {failed.check} failed"
    if any(each.sha256 != claim["file"]["sha256"] for each in looks):
        return "the checks examined a file with another SHA-256 than the file to certify"
    if any([*look.findings] != each["held"] for look, each in zip(looks, claim["checks"], strict=True)):
        return "the journal records another result of the checks than the request for the certificate"
    if any(look.beside != digest_beside(each["beside"]) for look, each in zip(looks, claim["checks"], strict=True)):
        return "the journal records that the checks had other input files than the request for the certificate lists"
    if claim["brain"]["kind"] == "model" and story.begun.brain.startswith(RECORDED):
        return "the decisions of the job came from a recording, not from a model"
    return ""


def read_wall(journal: Journal, desk: str) -> WallProof | None:
    """Return the wall that the journal says a keeper proved of a desk; raise `BriefError` for a desk with a door."""
    proof = None
    for row in journal.read_verified(desk):
        if row.name in _OF_WALLS:
            event = row.read_event()
            proof = (find_proof(event) if row.actor == KEEPER else None) or proof
            if isinstance(event, Rescoped) or (
                isinstance(event, Opened) and (event.scope or event.rules or event.grants)
            ):
                raise BriefError(
                    f"no certificate: desk {desk}, in which the file was checked, had network access (a door)"
                )
    return proof


def _build_certificate(
    journal: Journal,
    story: CertifiedStory,
    looks: Iterable[Verified],
    claim: Fields,
    walls: Mapping[str, WallProof] = _NO_PROOFS,
) -> Fields:
    begun = story.begun
    assert begun is not None
    head, last = journal.find_head(begun.job), journal.read_last()
    assert head is not None
    assert last is not None
    checks = zip(claim["checks"], looks, strict=True)
    addresses = {"addresses": _list_addresses(story)} if walls or story.addresses else {}
    return {
        "at": int(time.time() * 1000),
        "brain": {**claim["brain"], **addresses, "models": [*story.models], "name": begun.brain},
        "checks": [{**each, "desk": describe_desk(each["desk"], look.desk, walls)} for each, look in checks],
        "file": claim["file"],
        "hotdesk": claim["hotdesk"],
        "job": {"brief": begun.brief, "by": begun.by, "goal": compute_digest(begun.goal), "id": begun.job},
        "journal": {
            "job": {"hash": head.hash.hex(), "seq": head.seq},
            "last": {"hash": last.hash.hex(), "id": last.id},
        },
        "plan": {"approvals": [*story.approvals.values()], "digest": story.plan},
    }


def describe_desk(desk: Fields, name: str, walls: Mapping[str, WallProof]) -> Fields:
    """Describe the desk of a check and its wall. A proven wall replaces the job's own statement."""
    proof = walls.get(name)
    if proof is None:
        return {**desk, "id": name}
    facts = {"boundary": proof.is_boundary, "kernel": proof.kernel, "platform": proof.platform}
    return {**desk, **facts, "id": name, "version": proof.version, "wall": proof.wall}


def _list_addresses(story: CertifiedStory) -> list[Fields]:
    return [{"address": address, "model": model} for model, address in story.addresses]
