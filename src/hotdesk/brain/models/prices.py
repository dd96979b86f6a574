"""The price of a reply: from the operator's table, or the public one if installed; otherwise unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from importlib import import_module
from typing import Any

from hotdesk.brain.models.seam import TokenUsage
from hotdesk.config import Price
from hotdesk.dataclass import dataclass

_MILLION = 1_000_000
PUBLIC = ("anthropic", "openai")
"""Providers in the public price table: a local model of the same name has another price."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """The price of cached input, or `None` if it is that of `input`."""
    stored: float | None = None
    """The price of input that is stored in the cache, or `None` if it is that of `input`."""

    def of(self, usage: TokenUsage) -> float:
        cached = self.input if self.cached is None else self.cached
        stored = self.input if self.stored is None else self.stored
        sums = usage.input * self.input + usage.output * self.output + usage.cached * cached + usage.stored * stored
        return sums / _MILLION


@dataclass(frozen=True)
class Prices:
    """Prices by a model's whole name, as in `anthropic:MODEL`; the operator's come first."""

    table: Mapping[str, ModelPrice] = field(default_factory=dict)

    def price_usage(self, usage: TokenUsage, name: str) -> TokenUsage:
        """Return the usage with its price in dollars; `None` if that is unknown."""
        if (price := self.table.get(name)) is not None:
            return replace(usage, dollars=price.of(usage))
        provider, _, model = name.partition(":")
        return replace(usage, dollars=_calculate_public_price(usage, provider, model))


def read_prices(table: Mapping[str, Price]) -> Prices:
    return Prices({name: ModelPrice(each.input, each.output, each.cached, each.stored) for name, each in table.items()})


def _calculate_public_price(usage: TokenUsage, provider: str, model: str) -> float | None:
    """Return the price from the installed public table, or `None` if it is not installed or does not have the model."""
    if provider not in PUBLIC:
        return None
    try:
        table: Any = import_module("genai_prices")
    except ImportError:
        return None
    counts = table.Usage(
        input_tokens=usage.input + usage.cached + usage.stored,
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.stored,
        output_tokens=usage.output,
    )
    try:
        return float(table.calc_price(counts, model, provider_id=provider).total_price)
    except LookupError:
        return None
