"""`hotdesk approve`: list requests of desks and jobs, and approve one. `hotdesk refuse` is the same with no."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from hotdesk import config
from hotdesk.brief.names import get_registrable_domain
from hotdesk.cli import options
from hotdesk.cli.jobs import decision
from hotdesk.cli.jobs.decision import OpenDecision
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Asked
from hotdesk.job.people import questions
from hotdesk.job.people.approval_text import format_fact
from hotdesk.job.people.questions import PendingQuestion, ask_all_owners, select_question
from hotdesk.job.people.wait import MAX_QUOTE_CHARS
from hotdesk.linux.landlock import confine

NOTHING = "no request is pending"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "question", nargs="?", metavar="ID", help="the id of a request; without it, list pending requests"
    )
    parser.add_argument(
        "--digest",
        metavar="DIGEST",
        default="",
        help="approve only if the request has this digest, as `hotdesk approve` lists it",
    )
    parser.add_argument("--edit", action="store_true", help="edit the plan first, in $VISUAL or $EDITOR")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Approve one pending request of a desk or job. Without an id, list all pending requests.

    For example:

      hotdesk approve
      hotdesk approve 1a2b3c4d
      hotdesk approve 1a2b3c4d --edit
      hotdesk approve --json | jq -r .[].id
    """
    return decide(arguments, approved=True)


def decide(arguments: argparse.Namespace, approved: bool) -> int:
    """List the pending requests, or decide one: a job's in the journal, a desk's at its owner."""
    settings = config.load()
    if arguments.question is None:
        return _list_all(settings, arguments.json)
    case = decision.find_case(settings, arguments.question)
    if case is not None:
        return _decide_case(settings, case, arguments, approved)
    if getattr(arguments, "edit", False) or getattr(arguments, "reason", ""):
        raise BriefError(
            f"{arguments.question!r} is not a pending request of a job, and --edit and --reason apply only to those; "
            "leave out these options, or choose an id that `hotdesk approve` lists"
        )
    return _decide_question(settings, arguments, approved)


def _list_all(settings: Config, as_data: bool) -> int:
    now = int(time.time() * 1000)
    cases = decision.open_cases(settings, now)

    async def work() -> int:
        confine([])
        found = [(each.question.seconds, each) for each in await ask_all_owners(settings, complain)]
        mixed: list[tuple[float, PendingQuestion | OpenDecision]] = [
            *found,
            *(((c.pending.until - now) / 1000, c) for c in cases),
        ]
        every = [each for _, each in sorted(mixed, key=lambda one: one[0])]
        if as_data:
            print(json.dumps([as_dict(each) for each in every], indent=1))
        else:
            print("\n\n".join(format_pending(each, now) for each in every) or NOTHING)
        return 0

    return run_interruptible(work)


def as_dict(each: PendingQuestion | OpenDecision) -> dict[str, object]:
    return each.as_dict() if isinstance(each, OpenDecision) else {"kind": "door", **asdict(each.question)}


def format_pending(each: PendingQuestion | OpenDecision, now: int) -> str:
    return each.format_text(now) if isinstance(each, OpenDecision) else format_question(each.question)


def _decide_case(settings: Config, case: OpenDecision, arguments: argparse.Namespace, approved: bool) -> int:
    if not approved:
        return decision.settle(settings, case, "refused", arguments.digest, words=arguments.reason, json=arguments.json)
    if case.pending.kind == "question":
        raise BriefError(f"{case.pending.id} is a question; answer it with `hotdesk answer {case.pending.id} TEXT`")
    case.require_open(arguments.digest)
    edited = decision.edit(case) if arguments.edit else ""
    return decision.settle(settings, case, "approved", arguments.digest, edited=edited, json=arguments.json)


def _decide_question(settings: Config, arguments: argparse.Namespace, approved: bool) -> int:
    async def work() -> int:
        confine([])
        waiting = select_question(await ask_all_owners(settings, complain), arguments.question, arguments.digest)
        done = await questions.answer(waiting, approved)
        answer = "approved" if approved else "refused"
        print(
            json.dumps({"answer": answer, **asdict(done)}) if arguments.json else f"{answer}:\n{format_question(done)}"
        )
        return 0

    return run_interruptible(work)


def complain(owner: Path, why: str) -> None:
    print(
        f"hotdesk: cannot ask the process at {owner} for requests of its desks: {make_printable(why)}", file=sys.stderr
    )


def format_questions(found: list[PendingQuestion]) -> str:
    return "\n\n".join(format_question(each.question) for each in found) or NOTHING


def format_question(question: Asked) -> str:
    """Format one request: the door's facts first, the desk's words last."""
    facts = {
        "domain": get_registrable_domain(question.host),
        "host": question.host,
        "method": question.method,
        "path": question.path,
        **({} if question.size == -1 else {"bytes": f"{question.size:,}" if question.size >= 0 else "unknown"}),
        "adds": question.rule,
        "digest": question.digest[:16],
        "desk": question.desk,
        "left": f"{question.seconds:.0f} s",
    }
    lines = [f"  {name:8}{format_fact(value)}" for name, value in facts.items()]
    words = make_printable(question.reason[:MAX_QUOTE_CHARS]).replace('"', "'")
    return "\n".join([question.id, *lines, *([f'  the desk says (unchecked): "{words}"'] if words else [])])
