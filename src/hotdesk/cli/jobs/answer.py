"""`hotdesk answer`: say what a job asks."""

from __future__ import annotations

import argparse
import sys

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.jobs import decision
from hotdesk.errors import BriefError

_MAX_ANSWER_CHARS = 64 << 10
"""Characters of the longest answer."""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("question", metavar="ID", help="which; `hotdesk approve` lists what waits")
    parser.add_argument("text", metavar="TEXT", help="the answer, or - to read it from standard input")
    parser.add_argument("--digest", metavar="DIGEST", default="", help="only if it is still this question")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Answer a question that a job asks. The job may not run at the moment: it finds the answer when it goes on.

    For example:

      hotdesk answer 1a2b3c4d "the second one"
      hotdesk answer 1a2b3c4d - < answer.txt
    """
    settings = config.load()
    case = decision.find_case(settings, arguments.question)
    if case is None:
        raise BriefError(f"nothing waits under {arguments.question!r}; `hotdesk approve` lists what does")
    if case.pending.kind != "question":
        number = case.pending.id
        raise BriefError(f"{number} takes yes or no: `hotdesk approve {number}` or `hotdesk refuse {number}`")
    words = read_text(arguments.text)
    return decision.settle(settings, case, "answered", arguments.digest, words=words, json=arguments.json)


def read_text(text: str) -> str:
    """Give the answer's words."""
    words = (sys.stdin.read(_MAX_ANSWER_CHARS + 1) if text == "-" else text).strip()
    if not words or len(words) > _MAX_ANSWER_CHARS:
        raise BriefError(f"an answer has 1 to {_MAX_ANSWER_CHARS} characters; this one has {len(words)}")
    return words
