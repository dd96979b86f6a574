"""Build the claim about a deliverable that passed its checks, for the keys process to sign."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hotdesk import __version__
from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.desk.image.description import ImageFacts
from hotdesk.drive.certificate import LARGEST, encode_canonical
from hotdesk.errors import BriefError
from hotdesk.job.verify import Candidate

_NO_WALL = "local"
FindFacts: TypeAlias = Callable[[str], ImageFacts]
"""Returns the facts of an image, by its name."""


def describe_claim(candidate: Candidate, job: str, wall: str, facts: FindFacts, *, recorded: bool) -> dict[str, object]:
    """Return the claim for a certificate; raise `BriefError` if it is too large for one."""
    claim: dict[str, object] = {
        "brain": {"kind": "script" if recorded else "model"},
        "checks": [_describe_check(verdict, wall, facts) for verdict in candidate.verdicts],
        "file": {"name": candidate.item.path, "sha256": candidate.sha256, "size": len(candidate.data)},
        "hotdesk": {"architecture": os.uname().machine, "version": __version__},
        "job": job,
    }
    if len(encode_canonical(claim)) > LARGEST:
        raise BriefError(
            f"the results of the checks of {candidate.item.path} are too large for a certificate (limit "
            f"{LARGEST >> 10} KiB); use fewer checks for it in the brief"
        )
    return claim


def _describe_check(verdict: StoredVerdict, wall: str, facts: FindFacts) -> dict[str, object]:
    return {
        "beside": dict(verdict.beside),
        "check": verdict.check,
        "desk": _build_desk_fields(wall),
        "expect": dict(verdict.expect),
        "held": list(verdict.held),
        "image": {"digest": facts(verdict.image).digest, "name": verdict.image},
        "looked_for": list(verdict.looked_for),
        "not_checked": list(verdict.not_checked),
        "pages": [
            {"height": each.height, "sha256": each.sha256, "size": len(each.png), "width": each.width}
            for each in verdict.pictures
        ],
        "tools": dict(verdict.tools),
        "values": dict(verdict.values),
    }


def _build_desk_fields(wall: str) -> Mapping[str, object]:
    """Describe the desk a file was checked at, without its id, which the journal has."""
    walled = wall != _NO_WALL
    return {"id": "", "network": not walled, "sterile": walled, "wall": wall}
