"""Tests of a launcher's errands: a closed list of commands whose names have a fixed form."""

from __future__ import annotations

import pytest

from hotdesk.api.launch.job_command import build_errand_command
from hotdesk.errors import BriefError


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ({"verb": "secret", "name": "token", "kind": "basic"}, ["vault", "set", "token", "--kind", "basic"]),
        ({"verb": "unsecret", "name": "token"}, ["vault", "rm", "token"]),
        ({"verb": "unsave", "name": "snapshot-a1"}, ["image", "rm", "--yes", "snapshot-a1"]),
        ({"verb": "adopt", "name": "snapshot-a1"}, ["image", "import", "/dev/stdin", "--name", "snapshot-a1"]),
    ],
)
def test_an_errand_runs_a_hotdesk_command(message: dict[str, object], command: list[str]) -> None:
    assert build_errand_command(message) == command


@pytest.mark.parametrize("verb", ["unsave", "adopt"])
@pytest.mark.parametrize(
    "name", ["base", "snapshot-", "snapshot-../x", "snapshot-A", "--signer", "snapshot-a b", "", 7]
)
def test_no_image_of_the_operators_is_removed_or_replaced(verb: str, name: object) -> None:
    with pytest.raises(BriefError):
        build_errand_command({"verb": verb, "name": name})
