"""`hotdesk refuse`: no to what a desk or a job asks for."""

from __future__ import annotations

import argparse

from hotdesk.cli import options
from hotdesk.cli.jobs import approve


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("question", nargs="?", metavar="ID", help="which; without it, what waits is listed")
    parser.add_argument("--digest", metavar="DIGEST", default="", help="only if it is still about this")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why: the job is told")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Refuse what a desk or a job asks for. Without an id: list what waits.

    For example:

      hotdesk refuse 1a2b3c4d
      hotdesk refuse 1a2b3c4d --reason "not on a Sunday"
    """
    return approve.decide(arguments, approved=False)
