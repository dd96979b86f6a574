"""A brain that claims success. No verdict may depend on what it says."""

from __future__ import annotations

import re
from collections.abc import Callable

from hotdesk.brain.adversaries.adversary import Turned
from hotdesk.brain.models.script_play import FREE
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Results
from hotdesk.tool import Call

CLAIM = "All the work is done, and I have checked it twice: every result is present, correct and complete."
LEAVES = re.compile(r"^- Must leave: (.+)$", re.MULTILINE)
"""The line of a prompt that lists the files a step must leave."""
NOTHING = "\n"
WRITERS: dict[str, Callable[[str], dict[str, object]]] = {
    "file_create": lambda path: {"path": path, "content": NOTHING, "overwrite": True},
    "run": lambda path: {"argv": ["sh", "-c", 'mkdir -p "$(dirname "$1")" && echo > "$1"', "sh", path]},
    "exact_write": lambda path: {"path": path, "data": "Cg=="},
}
"""Tools that write a file, with the arguments that make each write an empty one."""


class Liar(Turned):
    """Says that it is done without any work; the variant `liar-empty` creates files without content first."""

    def __init__(self, script: ScriptedModel | None = None, *, leaves: bool = False) -> None:
        super().__init__(script)
        self.leaves = leaves
        self.name = "adversary liar-empty" if leaves else "adversary liar"

    async def ask(self, request: ModelRequest) -> Reply:
        if self.leaves and not any(isinstance(item, Results) for item in request.history):
            calls = [Call(f"leave-{place}", *write) for place, write in enumerate(_make_empty_writes(request), 1)]
            if calls:
                return Reply(calls=tuple(calls), stop="calls", usage=FREE, model=self.name)
        claim = Call("claim", "finish", {"summary": CLAIM})
        return Reply(text=CLAIM, calls=(claim,), stop="calls", usage=FREE, model=self.name)


def _make_empty_writes(request: ModelRequest) -> list[tuple[str, dict[str, object]]]:
    prompt = next((item.text for item in request.history if isinstance(item, OurMessage)), "")
    offered = {tool.name for tool in request.tools}
    writer = next((name for name in WRITERS if name in offered), None)
    paths = [path for line in LEAVES.findall(prompt) for path in line.split(", ")]
    return [(writer, WRITERS[writer](path)) for path in paths] if writer else []
