"""`hotdesk refuse`: no to what a desk asks for."""

from __future__ import annotations

import argparse

from hotdesk.cli import approve

add = approve.add


def main(arguments: argparse.Namespace) -> int:
    """Refuse what a desk asks for. Without an id: list what waits.

    For example:

      hotdesk refuse 1a2b3c4d
    """
    return approve.decide(arguments, approved=False)
