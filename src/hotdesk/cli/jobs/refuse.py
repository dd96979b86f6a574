"""`hotdesk refuse`: refuse a request of a desk or a job."""

from __future__ import annotations

import argparse

from hotdesk.cli import options
from hotdesk.cli.jobs import approve


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question", nargs="?", metavar="ID", help="the id of a request; without it, list pending requests"
    )
    parser.add_argument(
        "--digest",
        metavar="DIGEST",
        default="",
        help="refuse only if the request has this digest, as `hotdesk approve` lists it",
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="the reason, which the worker gets to read")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Refuse one pending request of a desk or job. Without an id, list all pending requests.

    For example:

      hotdesk refuse 1a2b3c4d
      hotdesk refuse 1a2b3c4d --reason "not on a Sunday"
    """
    return approve.decide(arguments, approved=False)
