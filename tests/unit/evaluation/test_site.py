"""Tests of a run's settings: how the door finds a site, and the operator's prices and limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hotdesk import config
from hotdesk.config import Ceiling, Config, Price
from hotdesk.evaluation.site import SiteAddress, render_settings

SETTINGS = Config(run=Path("run"), lib=Path("lib"), images=Path("images"))
SITE = SiteAddress(8443, "/state/ca.pem", ("a.example.test", "b.example.test"), {})


def load(text: str, folder: Path) -> Config:
    (folder / "etc").mkdir()
    (folder / "etc/config.toml").write_text(text)
    return config.load({"HOTDESK_HOME": str(folder)})


def test_a_site_is_found_by_its_names(tmp_path: Path) -> None:
    loaded = load(render_settings(SETTINGS, SITE), tmp_path)
    assert loaded.names == {"a.example.test": "127.0.0.1:8443", "b.example.test": "127.0.0.1:8443"}
    assert loaded.ca == "/state/ca.pem"


def test_prices_and_limits_of_the_operator_hold(tmp_path: Path) -> None:
    limits = Ceiling(models=("anthropic:*",), tokens=1000, dollars=0.5, approve="plan")
    prices = {'chat:"m"@http://127.0.0.1:1/v1': Price(1.5, 2.0, 0.25)}
    loaded = load(render_settings(replace(SETTINGS, limits=limits, prices=prices), None), tmp_path)
    assert loaded.prices == prices
    assert loaded.limits == Ceiling(models=("anthropic:*",), tokens=1000, dollars=0.5)


def test_without_a_site_and_settings_there_is_nothing() -> None:
    assert render_settings(SETTINGS, None) == ""
