"""Tests of what a reply costs: the operator's prices come first, and an unknown price stays unknown."""

from __future__ import annotations

import pytest

from hotdesk.brain.models.prices import ModelPrice, Prices, read_prices
from hotdesk.brain.models.seam import TokenUsage
from hotdesk.config import Price

USAGE = TokenUsage(input=1_000_000, output=100_000, cached=2_000_000, stored=500_000, up=7)
PRICE = ModelPrice(input=3.0, output=15.0, cached=0.3, stored=3.75)


@pytest.mark.parametrize(
    ("price", "dollars"),
    [(PRICE, 3 + 1.5 + 0.6 + 1.875), (ModelPrice(3.0, 15.0), 3 + 1.5 + 6 + 1.5), (ModelPrice(0.0, 0.0), 0.0)],
)
def test_the_operators_price_is_used(price: ModelPrice, dollars: float) -> None:
    priced = Prices({"chat:m@http://127.0.0.1:1/v1": price}).price_usage(USAGE, "chat:m@http://127.0.0.1:1/v1")
    assert priced.dollars == pytest.approx(dollars)
    assert (priced.input, priced.up) == (1_000_000, 7)


def test_the_operators_table_has_prices_for_cached_tokens() -> None:
    prices = read_prices({"anthropic:m": Price(3.0, 15.0, 0.3, 3.75), "anthropic:n": Price(3.0, 15.0, 3.0)})
    assert prices.price_usage(USAGE, "anthropic:m").dollars == pytest.approx(3 + 1.5 + 0.6 + 1.875)
    assert prices.price_usage(USAGE, "anthropic:n").dollars == pytest.approx(3 + 1.5 + 6 + 1.5)


@pytest.mark.parametrize(
    "name", ["anthropic:nobody-1", "openai:nobody-1", "chat:gpt-5.4@http://127.0.0.1:1/v1", "ollama:gpt-5.4"]
)
def test_an_unknown_price_is_unknown_and_not_nothing(name: str) -> None:
    assert Prices().price_usage(USAGE, name).dollars is None


def test_the_public_table_knows_common_models() -> None:
    dollars = Prices().price_usage(USAGE, "anthropic:claude-sonnet-4-5").dollars
    assert dollars is not None
    assert dollars > 0
