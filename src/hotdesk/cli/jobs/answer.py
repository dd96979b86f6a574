"""`hotdesk answer`: answer a question of a job."""

from __future__ import annotations

import argparse
import sys

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.jobs import decision
from hotdesk.errors import BriefError

_MAX_ANSWER_CHARS = 64 << 10
"""Maximum characters of an answer."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question", metavar="ID", help="the id of the question; `hotdesk approve` lists pending requests"
    )
    parser.add_argument("text", metavar="TEXT", help="the answer, or - to read it from standard input")
    parser.add_argument(
        "--digest",
        metavar="DIGEST",
        default="",
        help="answer only if the question has this digest, as `hotdesk approve` lists it",
    )
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Answer a question of a job. If the job is not running, it finds the answer when it is resumed.

    For example:

      hotdesk answer 1a2b3c4d "the second one"
      hotdesk answer 1a2b3c4d - < answer.txt
    """
    settings = config.load()
    case = decision.find_case(settings, arguments.question)
    if case is None:
        raise BriefError(f"no question {arguments.question!r} is pending; `hotdesk approve` lists pending requests")
    if case.pending.kind != "question":
        number = case.pending.id
        raise BriefError(
            f"{number} is not a question; decide with `hotdesk approve {number}` or `hotdesk refuse {number}`"
        )
    words = read_text(arguments.text)
    return decision.settle(settings, case, "answered", arguments.digest, words=words, json=arguments.json)


def read_text(text: str) -> str:
    words = (sys.stdin.read(_MAX_ANSWER_CHARS + 1) if text == "-" else text).strip()
    if not words or len(words) > _MAX_ANSWER_CHARS:
        raise BriefError(f"an answer has 1 to {_MAX_ANSWER_CHARS} characters; this one has {len(words)}")
    return words
