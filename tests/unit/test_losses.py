"""The guards that `doctor` and the door's self-test lose in tests are where those tests look for them."""

from __future__ import annotations

import pytest
from tests.e2e import test_doctor, test_selftest
from tests.security.guards import SOURCE

LOSSES = {
    **{f"doctor: {name}": loss.edits for name, loss in (test_doctor.QUICK | test_doctor.SLOW).items()},
    **{f"self-test: {name}": loss.edits for name, loss in (test_selftest.QUICK | test_selftest.SLOW).items()},
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_loss_edits_is_there(name: str) -> None:
    for file, old, _ in LOSSES[name]:
        assert old in (SOURCE / "hotdesk" / file).read_text(), f"{file} has no {old!r}"
