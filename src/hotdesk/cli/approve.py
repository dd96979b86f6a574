"""`hotdesk approve`: what desks ask for, and yes to it. `hotdesk refuse` is the same with no."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.confine import confine
from hotdesk.desk.remote import Unanswered, remote_runtime
from hotdesk.errors import BriefError, HotdeskError, printable
from hotdesk.event import Asked
from hotdesk.host import server

SECONDS = 5.0
"""How long one owner may take to say what waits: others have questions, too."""
WORDS = 300
LONGEST = 500
"""Characters shown of a path or rule."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A question and the owner that holds it."""

    owner: Path
    asked: Asked


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("question", nargs="?", metavar="ID", help="which; without it, what waits is listed")
    parser.add_argument("--digest", metavar="DIGEST", default="", help="only if it is still about this")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Let a desk do what it asks for, just that. Without an id: list what waits.

    For example:

      hotdesk approve
      hotdesk approve 1a2b3c4d
      hotdesk approve --json | jq -r .[].id
    """
    return decide(arguments, approved=True)


def decide(arguments: argparse.Namespace, approved: bool) -> int:
    """List what waits, or answer one question."""
    settings = config.load()

    async def work() -> int:
        confine([])
        found = await everything(settings)
        if arguments.question is None:
            print(as_json([each.asked for each in found]) if arguments.json else listing(found))
            return 0
        waiting = chosen(found, arguments.question, arguments.digest)
        async with remote_runtime(waiting.owner) as owner:
            done = await owner.answer(waiting.asked, approved)
        answer = "approved" if approved else "refused"
        print(json.dumps({"answer": answer, **asdict(done)}) if arguments.json else f"{answer}:\n{card(done)}")
        return 0

    return run_interruptible(work)


async def everything(settings: Config) -> list[Waiting]:
    """Ask every owner of this state directory; an ordinary user's is the server."""
    found: list[Waiting] = []
    for path in owners(settings):
        with suppress(Unanswered):  # it died, and its socket was not cleared up
            found += [Waiting(path, asked) for asked in await questions(path)]
    return sorted(found, key=lambda each: each.asked.seconds)


def owners(settings: Config) -> list[Path]:
    """List the control sockets, each once."""
    if os.geteuid() != 0:
        return [server(settings)]
    return sorted(path for path in (settings.run / "control").glob("*.sock") if not path.is_symlink())


async def questions(path: Path) -> list[Asked]:
    """Ask one owner; one that is stopped or strange does not keep the others' from being seen."""
    try:
        with anyio.fail_after(SECONDS):
            async with remote_runtime(path) as owner:
                return await owner.questions()
    except Unanswered:
        raise
    except (HotdeskError, TimeoutError) as e:
        print(f"hotdesk: the owner at {path} cannot be asked: {printable(str(e)) or 'no answer'}", file=sys.stderr)
        return []


def chosen(found: list[Waiting], number: str, digest: str = "") -> Waiting:
    """Give the one question of that id, about what begins with that digest."""
    matching = [each for each in found if each.asked.id == number and each.asked.digest.startswith(digest)]
    if not matching:
        raise BriefError(f"nothing waits under {number!r}; `hotdesk approve` lists what does")
    if len(matching) > 1:
        raise BriefError(f"several questions have the id {number}; no honest door gives one twice: burn those desks")
    return matching[0]


def listing(found: list[Waiting]) -> str:
    """Lay out what waits."""
    return "\n\n".join(card(each.asked) for each in found) or "nothing waits for an answer"


def card(asked: Asked) -> str:
    """Lay one question out: first what the door saw, last what the desk says."""
    facts = {
        "host": asked.host,
        "method": asked.method,
        "path": asked.path,
        "adds": asked.rule,
        "digest": asked.digest[:16],
        "desk": asked.desk,
        "left": f"{asked.seconds:.0f} s",
    }
    lines = [f"  {name:8}{shown(value)}" for name, value in facts.items()]
    words = printable(asked.reason[:WORDS]).replace('"', "'")
    return "\n".join([asked.id, *lines, *([f'  the desk says: "{words}"'] if words else [])])


def shown(value: str) -> str:
    """Write one fact in a line that cannot be mistaken for another; what is left out is said."""
    rest = len(value) - LONGEST
    return printable(value[:LONGEST]) + (f" … and {rest} characters more: see --json" if rest > 0 else "")


def as_json(found: list[Asked]) -> str:
    """Write questions as JSON."""
    return json.dumps([asdict(each) for each in found], indent=1)
