"""A file that acts when it is opened is found in what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.checks.inside.active_look import look
from tests.security.opening_files import ACTS


@pytest.mark.parametrize("what", ACTS)
def test_what_acts_when_it_is_opened_is_found_without_opening_it(tmp_path: Path, what: str) -> None:
    family, (name, data) = ACTS[what]
    (tmp_path / name).write_bytes(data)
    told = look(str(tmp_path / name))
    assert family in {each[0] for each in told["found"]}, told  # type: ignore[attr-defined]
