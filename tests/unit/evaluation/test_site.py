"""Tests of a run's settings: how the door finds a site, and the operator's prices and limits."""

from __future__ import annotations

from dataclasses import fields, replace
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


def test_prices_limits_and_models_of_the_operator_hold(tmp_path: Path) -> None:
    limits = Ceiling("gvisor", ("erp-*",), ("anthropic:*",), 1000, 0.5, 7, 60.0, "plan")
    assert all(getattr(limits, each.name) != each.default for each in fields(Ceiling)), "a new limit is tested as well"
    prices = {'chat:"m"@http://127.0.0.1:1/v1': Price(1.5, 2.0, 0.25, 3.0), "openai:m": Price(1.5, 2.0, 1.5)}
    models = {"openai:my-*": {"context": 128000, "efforts": ("low", "high"), "images": False, "computer": ""}}
    settings = replace(SETTINGS, limits=limits, prices=prices, models=models)
    loaded = load(render_settings(settings, None), tmp_path)
    assert loaded.prices == prices
    assert loaded.models == models
    assert loaded.limits == replace(limits, approve="auto")


def test_without_a_site_and_settings_there_is_nothing() -> None:
    assert render_settings(SETTINGS, None) == ""
