"""Tests of the package sources a server's sandboxes may reach, on machines that lack one of the usual ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hotdesk.api.e2b.defaults import compute_defaults
from hotdesk.api.settings import Serving
from hotdesk.door.policy import presets
from hotdesk.door.policy.presets import PackageSources


@pytest.fixture
def bare() -> Iterator[None]:
    """Configure a machine with an index for pip, without npm, and without an apt archive on the web."""
    before = dict(presets.REMEMBERED)
    pip = PackageSources(pip=("https://index.example.test/simple",), default_pip=False)
    presets.REMEMBERED.update(pypi=pip, npm=PackageSources(), debian=PackageSources())
    yield
    presets.REMEMBERED.clear()
    presets.REMEMBERED.update(before)


@pytest.mark.usefixtures("bare")
def test_a_machine_without_npm_offers_the_other_sources_and_reports_npm_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scope = compute_defaults(Serving()).scope
    assert [rule.host for rule in scope.rules] == ["nowhere.invalid", "index.example.test"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("a package index: ")[2].split(":")[0] for line in lines] == ["npm", "debian"]


@pytest.mark.usefixtures("bare")
def test_a_server_that_offers_no_packages_does_not_mention_them(capsys: pytest.CaptureFixture[str]) -> None:
    compute_defaults(Serving(egress="deny"))
    assert capsys.readouterr().err == ""
