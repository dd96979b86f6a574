"""Placeholders that a desk has in place of secrets. Pure."""

from __future__ import annotations

import re
import secrets

PREFIX = b"hotdesk-secret-"
PLACEHOLDER = re.compile(rb"hotdesk-secret-[a-z0-9][a-z0-9-]{0,63}-[a-z2-7]{26}")
MAX_PLACEHOLDER_BYTES = 106
ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def make_placeholder(name: str) -> str:
    """Return a placeholder for a secret: its name and 130 random bits."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48].strip("-") or "unnamed"
    word = "".join(ALPHABET[byte % 32] for byte in secrets.token_bytes(26))  # as likely as by `secrets.choice`, sooner
    return f"{PREFIX.decode()}{plain}-{word}"


def name_in(placeholder: bytes) -> str:
    return placeholder[len(PREFIX) : -27].decode()
