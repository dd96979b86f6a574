"""What every check must do, whatever it looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hotdesk.checks import CHECKS, find
from hotdesk.checks.seam import Check
from hotdesk.desk.local import local_runtime
from hotdesk.desk.seam import Desk, Spec

SAMPLES: dict[str, dict[str, object]] = {"xlsx": {"columns": ["A"], "rows": 0}}
"""Something each can expect."""


@pytest.fixture(params=CHECKS)
def check(request: pytest.FixtureRequest) -> Check:
    """Give each check in turn."""
    return find(request.param, SAMPLES[request.param])


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Open a desk without a wall: what is looked at here harms nobody."""
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        yield desk
        await runtime.burn(desk.id)


@pytest.mark.parametrize("data", [None, b"", b"\0\xff" * 1000, b"PK\x03\x04" + b"x" * 100])
async def test_a_file_that_is_missing_or_broken_fails_and_is_no_error(
    check: Check, desk: Desk, data: bytes | None
) -> None:
    if data is not None:
        await desk.write("deliverable", data)
    verdict = check.judge(await check.gather(desk, "deliverable"))
    assert not verdict.passed
    assert verdict.findings


@pytest.mark.parametrize(
    "evidence",
    [b"", b"{}", b"null", b"[" * 100_000, b'"' * 9, b"\xff\xfe", b"9" * 5000, b'{"a":' * 5000, b" " * (16 << 20)],
    ids=range(9),
)
def test_evidence_a_hostile_desk_made_up_fails_and_is_no_error(check: Check, evidence: bytes) -> None:
    verdict = check.judge(evidence)
    assert not verdict.passed
    assert all(finding.isprintable() and len(finding) <= 1000 for finding in verdict.findings)
    assert check.judge(evidence) == verdict
