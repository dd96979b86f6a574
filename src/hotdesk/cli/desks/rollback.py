"""`hotdesk rollback`: restore a desk's files."""

from __future__ import annotations

import argparse

from hotdesk.cli.desks.pause import act_on_desks


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the desk's id")
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="the snapshot's name, as `hotdesk snapshot` printed it")


def main(arguments: argparse.Namespace) -> int:
    """Roll a desk's files back to a snapshot. Every program in the desk ends, and the desk boots again.

    For example:

      hotdesk rollback $ID 1
    """
    return act_on_desks([arguments.desk], lambda desk: desk.boot(arguments.snapshot))
