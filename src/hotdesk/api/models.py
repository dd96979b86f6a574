"""Which models a server's jobs may use: those its operator lists, or a provider's own if none are listed.

A name with an address in it makes this machine call that address, so only the operator can allow one: by writing
exactly that name into `[serve] models`. Standard library only: the launcher checks every name again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotdesk.errors import make_printable

PROVIDERS = ("anthropic", "openai")
"""Providers whose address is not part of a model's name."""
SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}:[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,255}")
FAMILIES = {"claude": "anthropic", "gpt": "openai", "chatgpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai"}
"""First words of model names, and the provider of each."""
EXAMPLES = "anthropic:claude-sonnet-5 or openai:gpt-5"


def explain_refusal(name: str, listed: Sequence[str] = ()) -> str:
    """Explain why a job of a server may not use a model, and what to write instead; empty if it may."""
    if name in listed:
        return ""
    shown = make_printable(name[:80])
    if listed:
        return f"this server does not offer the model {shown!r}; choose one of {', '.join(listed)}"
    if not SHAPE.fullmatch(name):
        return f"{shown!r} is not a model's full name; write {_suggest_name(name)}"
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS or "//" in model:
        return (
            f"the model {shown!r} is not allowed: its name has an address, or its provider is not one of "
            f"{', '.join(PROVIDERS)}; use a model such as {EXAMPLES}, or ask the server's operator to list this one in "
            "`[serve] models`"
        )
    return ""


def _suggest_name(name: str) -> str:
    for begin, provider in FAMILIES.items():
        whole = f"{provider}:{name}"
        if name.lower().startswith(begin) and SHAPE.fullmatch(whole):
            return whole if name.lower() != begin else f"{provider}:MODEL, as in {EXAMPLES}"
    return f"PROVIDER:MODEL, as in {EXAMPLES}"
