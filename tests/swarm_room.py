"""A small swarm on a machine without walls: its items are the lines of a text, and each worker counts one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import LanguageModel
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import read
from hotdesk.event import Event, ignore
from hotdesk.job.local import local_machine
from hotdesk.job.people.people import Prompt, ask_nobody
from hotdesk.swarm.brains import Brains, ScriptBrains
from hotdesk.swarm.receipt import SwarmReceipt
from hotdesk.swarm.run import SwarmContext, SwarmRun, run_swarm
from hotdesk.work import JobContext

BRIEF = """
goal = "Count the letters of {item}."
wall = "local"
deliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]
%s
[each]
%s
attempts = 2
%s
[reduce]
goal = "Add up the letters."
deliverables = [{path = "total.json", expect = {types = {total = "integer"}}}]
"""
SCRIPT = """
import json
from hotdesk.brain.models.scripted import step

async def count(hands):
    "Count the letters of one word."
    word = (await hands.read("item.txt")).decode().strip()
    if word == "broken":
        raise ValueError("it cannot be counted")
    letters = "many" if word == "wrong" and not hands.before else len(word)
    await hands.write(f"{hands.item}.json", json.dumps({"letters": letters, "word": word}).encode())

async def add(hands):
    "Add up the letters of all words."
    lines = [json.loads(line) for line in (await hands.read("results.jsonl")).splitlines()]
    texts = [json.loads(file["text"]) for line in lines for file in line["files"].values()]
    await hands.write("total.json", json.dumps({"total": sum(each["letters"] for each in texts)}).encode())

PLAN = (step(count, files=["item.txt"], makes=["{item}.json"]),)
REDUCE = (step(add, files=["results.jsonl"], makes=["total.json"]),)
"""


@dataclass
class SwarmRoom:
    """A folder with words, and a state directory."""

    folder: Path
    words: list[str]
    top: str = ""
    each: str = ""
    over: str = 'over = "words.txt"'
    script: str = SCRIPT
    job: str = ""
    turn: Callable[[ScriptedModel], LanguageModel] | None = None
    """Replaces the model that takes an item, or None to keep the script."""
    brains: Brains | None = None
    """The brains that work instead of the script."""
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "words.txt").write_text("".join(f"{word}\n" for word in self.words))
        self.settings = Config(run=self.folder / "run", lib=self.folder / "lib", images=self.folder / "images")

    async def carry_out(
        self,
        listener: Callable[[Event], None] = ignore,
        on_run: Callable[[SwarmRun], None] = lambda run: None,
        prompt: Prompt = ask_nobody,
        **options: object,
    ) -> SwarmReceipt:
        brief = parse_job((BRIEF % (self.top, self.over, self.each)).encode(), self.folder, scope_of)
        async with local_machine(self.settings) as machine:
            brains = self.brains or ScriptBrains(self.script.encode(), self.folder / "script.py", self.turn)
            order = JobContext(machine, brief, listener=listener, prompt=prompt, exact=brains.exact)
            if self.job:
                order.id, order.goes_on = self.job, True
            self.job = order.id
            context = SwarmContext(order, brains, on_progress=on_run, **options)  # type: ignore[arg-type]
            try:
                return await run_swarm(context)
            finally:
                self.events = [row.read_event() for row in read(order.journal, order.id)]
