"""Tests that the guards removed in tests of `doctor` and the door's self-test are where those tests expect them."""

from __future__ import annotations

import pytest
from tests.e2e import test_doctor, test_selftest
from tests.security.guards import SOURCE

LOSSES = {
    **{f"doctor: {name}": loss.edits for name, loss in (test_doctor.QUICK | test_doctor.SLOW).items()},
    **{f"self-test: {name}": loss.edits for name, loss in (test_selftest.QUICK | test_selftest.SLOW).items()},
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_text_each_removal_edits_exists(name: str) -> None:
    for file, old, _ in LOSSES[name]:
        assert old in (SOURCE / "hotdesk" / file).read_text(), f"{file} has no {old!r}"
