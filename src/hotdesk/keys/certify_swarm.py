"""Sign one root over the records of a swarm's items, taken from the journal, not from the swarm's process.

A swarm gets no certificate if two items shared a desk, or if an item was checked in a desk where a worker had been,
that has no verified wall, that has a door, or that checked more items than its wall allows: `MOST_SHARED` where the
host's kernel counts programs, elsewhere one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from hotdesk import __version__
from hotdesk.dataclass import dataclass
from hotdesk.drive.certificate import Fields, compute_digest
from hotdesk.drive.journal import Journal
from hotdesk.drive.swarm_certificate import MOST_SHARED, compute_error_bound, compute_root, sign
from hotdesk.errors import BriefError
from hotdesk.event import (
    Certified,
    Event,
    ItemEnded,
    ItemReviewed,
    ItemsAdded,
    Opened,
    Reduced,
    Resumed,
    SwarmBegun,
    SwarmCertified,
)
from hotdesk.keys.certify import TOLD, CertifiedStory, read_wall
from hotdesk.walls import WallProof

_NAMES = {*TOLD, *(kind.__name__ for kind in (SwarmBegun, ItemsAdded, ItemEnded, ItemReviewed, Reduced))}
_NO_PROOFS: Mapping[str, WallProof] = {}


@dataclass(slots=True)
class SwarmStory:
    """The journal's account of a swarm, as far as its certificate needs it."""

    job: CertifiedStory = field(default_factory=CertifiedStory)
    begun: SwarmBegun | None = None
    items: dict[int, ItemEnded] = field(default_factory=dict)
    """The last record of each item, by its index."""
    reviews: dict[str, ItemReviewed] = field(default_factory=dict)
    reduced: Reduced | None = None

    def take(self, event: Event, at: int) -> None:
        match event:
            case SwarmBegun():
                self.begun = event
            case ItemsAdded() if self.begun is not None:
                self.begun = replace(self.begun, items=event.items, manifest=event.manifest)
                self.reduced = None
            case ItemEnded():
                self.items[event.index] = event
                self.reduced = None  # a report built before does not include this item
            case Resumed():  # a swarm that is over can be resumed to add or retry items
                self.job.ended = False
            case ItemReviewed():
                self.reviews[event.item] = event
            case Reduced():
                self.reduced = event
            case _:
                self.job.take(event, at)

    @property
    def done(self) -> list[ItemEnded]:
        return [each for each in self.items.values() if each.outcome == "done"]


def certify_swarm(
    journal: Journal, swarm: str, proofs: Mapping[str, WallProof | None] = _NO_PROOFS, *, walled: bool = True
) -> bytes:
    """Sign the records of all items of a swarm; the event is written with the next commit."""
    journal.commit()
    story = SwarmStory()
    for row in journal.read_verified(swarm):
        if row.name in _NAMES:
            story.take(row.read_event(), row.at)
    if why := _refuse(journal, story, walled=walled):
        raise BriefError(f"swarm {swarm} gets no certificate: {why}")
    walls = _find_walls(journal, story, proofs) if walled else []
    fields = _write_fields(journal, swarm, story, walls)
    signed = sign(fields, journal.signer)
    event = SwarmCertified(swarm, fields["items"]["root"], hashlib.sha256(signed).hexdigest())
    journal.add(swarm, "keys", event)
    return signed


def _refuse(journal: Journal, story: SwarmStory, *, walled: bool) -> str:
    """Return the reason why a swarm is not certified, or an empty string if it may be."""
    if story.begun is None or story.job.begun is None:
        return "the journal does not record its start, so the swarm never started here"
    if story.job.ended:
        return "the swarm has ended already"
    if sorted(story.items) != list(range(story.begun.items)):
        return f"{story.begun.items - len(story.items)} of the {story.begun.items} items have no record in the journal"
    done = story.done
    if not done:
        return "no item passed its checks"
    if any(not each.desk or not each.clean or not each.checks or not each.digests for each in done):
        return _explain_gap(done)
    working = Counter(each.desk for each in story.items.values() if each.desk)
    if shared := next((desk for desk, count in working.items() if count > 1), ""):
        return f"the workers of two items used the same desk, {shared}; each item needs a desk of its own"
    clean = Counter(each.clean for each in done)
    if crowded := next((desk for desk, count in clean.items() if count > MOST_SHARED), ""):
        return f"the clean desk {crowded} checked more than {MOST_SHARED} items, which is the limit"
    if clean.keys() & working.keys():
        mixed = min(clean.keys() & working.keys())
        return f"an item was checked in desk {mixed}, where a worker had acted; checks need a clean desk"
    if walled and (unopened := next((each.desk for each in done if not journal.has(each.desk, Opened)), "")):
        return f"the journal does not record that a keeper opened desk {unopened}, where a worker acted"
    if story.reduced is not None:
        return _refuse_report(journal, story.reduced)
    return ""


def _explain_gap(done: Sequence[ItemEnded]) -> str:
    for each in done:
        facts = {
            "worker's desk": each.desk,
            "clean desk": each.clean,
            "check": each.checks,
            "deliverable": each.digests,
        }
        if missing := [name for name, fact in facts.items() if not fact]:
            return f"the journal shows no {' and no '.join(missing)} of item {each.item}, which counts as done"
    return ""


def _refuse_report(journal: Journal, reduced: Reduced) -> str:
    certified = {
        (event.path, event.sha256)
        for row in journal.read_verified(reduced.reduce)
        if row.name == Certified.__name__ and isinstance(event := row.read_event(), Certified)
    }
    lacking = [
        path for path, sha256 in zip(reduced.paths, reduced.digests, strict=True) if (path, sha256) not in certified
    ]
    return f"the report file {lacking[0][:200]} has no certificate of its own" if lacking else ""


def _find_walls(journal: Journal, story: SwarmStory, proofs: Mapping[str, WallProof | None]) -> list[str]:
    """Return the walls of the desks that checked items; raise `BriefError` if one was not proven."""
    walls = set()
    for desk, count in Counter(each.clean for each in story.done).items():
        proof = read_wall(journal, desk) or proofs.get(desk)
        if proof is None:
            raise BriefError(
                f"a swarm gets no certificate: the keeper did not verify the wall of desk {desk}, in which items were "
                "checked"
            )
        if count > 1 and proof.kernel != "host":
            raise BriefError(
                f"a swarm gets no certificate: the clean desk {desk} checked {count} items; behind {proof.wall} it may "
                "check one, as the host cannot see whether the programs of the last check have ended"
            )
        walls.add(proof.wall)
    return sorted(walls)


def _write_fields(journal: Journal, swarm: str, story: SwarmStory, walls: list[str]) -> Fields:
    begun, head, last = story.job.begun, journal.find_head(swarm), journal.read_last()
    assert begun is not None
    assert story.begun is not None
    assert head is not None
    assert last is not None
    done = story.done
    clean = Counter(each.clean for each in done)
    wrong = sum(each.verdict == "wrong" for each in story.reviews.values())
    reduced = story.reduced
    return {
        "at": int(time.time() * 1000),
        "brain": {"name": begun.brain},
        "checks": sorted({check for each in done for check in each.checks}),
        "desks": {
            "clean": len(clean),
            "shared_by_at_most": max(clean.values()),
            "walls": walls,
            "working": len({each.desk for each in story.items.values() if each.desk}),
        },
        "hotdesk": {"architecture": os.uname().machine, "version": __version__},
        "items": {
            "count": story.begun.items,
            "done": len(done),
            "manifest": story.begun.manifest,
            "quarantined": len(story.items) - len(done),
            "root": compute_root([story.items[at] for at in range(story.begun.items)]),
        },
        "job": {"brief": begun.brief, "by": begun.by, "goal": compute_digest(begun.goal), "id": begun.job},
        "journal": {
            "job": {"hash": head.hash.hex(), "seq": head.seq},
            "last": {"hash": last.hash.hex(), "id": last.id},
        },
        "plan": {"approvals": [*story.job.approvals.values()], "digest": story.job.plan},
        "report": [
            {"job": reduced.reduce, "name": path, "sha256": sha256}
            for path, sha256 in zip(reduced.paths, reduced.digests, strict=True)
        ]
        if reduced is not None
        else [],
        "review": {
            "error_bound": compute_error_bound(len(story.reviews), wrong),
            "reviewed": len(story.reviews),
            "wrong": wrong,
        },
    }
