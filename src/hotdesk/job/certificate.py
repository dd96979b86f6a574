"""What a job says of a deliverable that passed its checks, for keys to sign."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.desk.image import image
from hotdesk.drive.certificate import LARGEST, canonical
from hotdesk.errors import BriefError, ImageError
from hotdesk.job.verify import Candidate

NO_WALL = "local"


def claim_of(made: Candidate, job: str, wall: str, images: Path, *, recorded: bool) -> dict[str, object]:
    """Say what was seen of a deliverable; `BriefError` when that is more than a certificate holds."""
    told: dict[str, object] = {
        "brain": {"kind": "script" if recorded else "model"},
        "checks": [check_of(seen, wall, images) for seen in made.seen],
        "file": {"name": made.item.path, "sha256": made.sha256, "size": len(made.data)},
        "hotdesk": {"architecture": os.uname().machine, "version": import_module("hotdesk").__version__},
        "job": job,
    }
    if len(canonical(told)) > LARGEST:
        raise BriefError(f"what its checks saw of {made.item.path} is more than a certificate holds; expect less")
    return told


def check_of(seen: StoredVerdict, wall: str, images: Path) -> dict[str, object]:
    """Say what one check was, and what it saw."""
    return {
        "beside": dict(seen.beside),
        "check": seen.check,
        "desk": desk_of(wall),
        "expect": dict(seen.expect),
        "held": list(seen.held),
        "image": {"digest": digest_of(images, seen.image), "name": seen.image},
        "looked_for": list(seen.looked_for),
        "not_checked": list(seen.not_checked),
        "pages": [
            {"height": each.height, "sha256": each.sha256, "size": len(each.png), "width": each.width}
            for each in seen.pictures
        ],
        "tools": dict(seen.tools),
        "values": dict(seen.values),
    }


def desk_of(wall: str) -> Mapping[str, object]:
    """Say where a file was looked at; which desk it was the journal knows. Without a wall nothing is clean or shut."""
    walled = wall != NO_WALL
    return {"id": "", "network": not walled, "sterile": walled, "wall": wall}


def digest_of(images: Path, name: str) -> str:
    """Give an image's digest; nothing where there is no image, as without walls."""
    try:
        return image.find(images, name).digest
    except ImageError:
        return ""
