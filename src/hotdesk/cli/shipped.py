"""Finds guides and the systemd unit that come with hotdesk, in a checkout or where the wheel installed them."""

from __future__ import annotations

import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[3]
PLACES = {".md": "docs/guide", ".service": "packaging"}
"""Folder of each kind of file in a checkout."""
INSTALLED = "share/hotdesk"
"""Folder of an installed wheel's files, below the environment."""


def find_shipped_file(name: str) -> Path:
    own = ROOT / PLACES[Path(name).suffix] / name
    return own if own.exists() else Path(sysconfig.get_path("data")) / INSTALLED / name
