"""Models by name: `anthropic:MODEL`, `anthropic:MODEL?batch`, `openai:MODEL`, `chat:MODEL@URL`, `ollama:MODEL`."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from hotdesk.brain.models.seam import LanguageModel
from hotdesk.errors import BriefError, make_printable

MAKERS = {
    "anthropic": "hotdesk.brain.models.anthropic:AnthropicModel",
    "batch": "hotdesk.brain.models.anthropic_batch:AnthropicBatchModel",
    "openai": "hotdesk.brain.models.openai:OpenAIModel",
    "chat": "hotdesk.brain.models.chat:Chat",
    "ollama": "hotdesk.brain.models.chat:Chat",
}
"""Classes of drivers, imported on use, because the providers' libraries are slow to load."""
_BATCH = "?batch"
"""Suffix of an Anthropic model: each turn is sent as a batch, at half the price, and may take a day."""
_OLLAMA = "http://127.0.0.1:11434/v1"
FORMS = "anthropic:MODEL, openai:MODEL, chat:MODEL@http://127.0.0.1:8080/v1 or ollama:MODEL"


def find(name: str, **options: Any) -> LanguageModel:
    """Return a model by its name; `options` are its driver's: `base_url`, `key`, `window`, `prices`, `patience`."""
    maker, model, url = split_name(name)
    if maker == "anthropic" and model.endswith(_BATCH):
        maker, model = "batch", model.removesuffix(_BATCH)
    module, _, driver = MAKERS[maker].partition(":")
    if url:
        options = {"base_url": url, "name": name, **options}
    found: LanguageModel = getattr(import_module(module), driver)(model, **options)
    return found


def split_name(name: str) -> tuple[str, str, str]:
    """Split a name into provider, model and URL (empty if it has none); raise `BriefError` if it is invalid."""
    maker, _, model = name.partition(":")
    url = ""
    if maker == "ollama":
        url = _OLLAMA
    elif maker == "chat":
        model, _, url = model.rpartition("@")
    if (
        maker not in MAKERS
        or maker == "batch"
        or not model.removesuffix(_BATCH)
        or not model.isprintable()
        or (maker == "chat" and not _is_http(url))
    ):
        raise BriefError(f"{make_printable(name[:80])!r} is not a model name; write {FORMS}")
    return maker, model, url


def is_same_place(name: str, other: str) -> bool:
    """Return whether two models share an address, so that one key serves both."""
    (maker, _, url), (other_maker, _, other_url) = split_name(name), split_name(other)
    return (maker, url) == (other_maker, other_url)


def _is_http(url: str) -> bool:
    """Return whether a URL is usable: without user name and password, which would be shown wherever the name is."""
    try:
        split = urlsplit(url)
        return (
            split.scheme in ("http", "https") and bool(split.hostname) and "@" not in split.netloc and split.port != 0
        )
    except ValueError:
        return False
