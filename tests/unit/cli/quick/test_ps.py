"""Tests of `hotdesk ps`."""

from __future__ import annotations

import json

from hotdesk.cli.quick.ps import format_desks

DESK: dict[str, object] = {
    "id": "i1", "tenant": "default", "image": "base", "wall": "gvisor", "state": "open", "kept": True, "opened": 0.0,
    "cpus": 2.0, "memory": 1 << 31,
}  # fmt: skip
PROOF = {"wall": "gvisor", "kernel": "sentry", "is_boundary": True, "version": "runsc 20240729", "platform": "kvm"}


def test_a_desk_is_listed_with_the_wall_its_keeper_proved() -> None:
    heading, line = format_desks([{**DESK, "wall": "container", "proof": PROOF}], False).splitlines()
    assert heading.split()[:5] == ["ID", "TENANT", "IMAGE", "WALL", "STATE"]
    assert line.split()[:5] == ["i1", "default", "base", "gvisor/kvm", "open"]
    (told,) = json.loads(format_desks([{**DESK, "proof": PROOF}], True))
    assert told["proof"] == PROOF


def test_an_unproven_wall_is_shown_as_requested() -> None:
    assert format_desks([dict(DESK)], False).splitlines()[1].split()[3] == "(gvisor)"
