"""Guides and the systemd unit that come with hotdesk: in a checkout, or where its wheel put them."""

from __future__ import annotations

import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLACES = {".md": "docs/guide", ".service": "packaging"}
"""Where a checkout has files of a kind."""
INSTALLED = "share/hotdesk"
"""Where a wheel puts them, below the environment it is installed into."""


def find_shipped_file(name: str) -> Path:
    own = ROOT / PLACES[Path(name).suffix] / name
    return own if own.exists() else Path(sysconfig.get_path("data")) / INSTALLED / name
