"""A brain that makes every mistake: parameters, types, tools; it talks instead of acting, and repeats itself."""

from __future__ import annotations

from hotdesk.brain.adversaries.adversary import Turned
from hotdesk.brain.models.script_play import FREE
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.tool import Call

TALK = "I would now run the program and look at the result. Should I?"
"""The text of a reply that should have been a tool call."""
Use = tuple[str, object]
MISTAKES: tuple[tuple[Use, ...], ...] = (
    (("bash", {"cmd": "ls"}),),
    (("shell", {}),),
    (("shell", {"command": ["ls", "-l"]}),),
    (("run", {"argv": "ls -l"}),),
    (("run", {"argv": ["ls"], "command": "ls"}),),
    (("run", ["ls"]),),
    (("run", {"argv": ["ls"]}),),
    (("run", "ls"),),
    (),
    (("run", {"argv": ["ls"], "timeout": "soon"}),),
    (("run", {"argv": ["ls"], "timeout": -1, "shell": True}),),
    (("file_view", {"path": 7}), ("file_view", {"file": "notes.md"}), ("file_veiw", {"path": "notes.md"})),
    (("file_view", {"path": "../../../../etc/../nowhere"}),),
    (("file_replace", {"path": "nowhere", "old": "", "new": ""}),),
    (("shell", {"command": "exit 7"}),),
    (("shell", {"command": "cat no-such-file"}),),
    (("finish", {"done": True}),),
    (("give_up", {}),),
    (("", {}),),
    (("browser_click", {"ref": "the blue button"}),),
    (("run\n\x1b[31m", {"argv": ["ls"]}),),
    (("shell", {"command": "ls\0"}),),
    (("shell", {"command": "x" * 100_001}),),
)
"""The tool calls of each turn; a turn without calls is talk."""
FOR_EVER: Use = ("run", {"argv": ["ls"]})


class Clumsy(Turned):
    """Makes every mistake once, then repeats one call for ever. It never finishes."""

    name = "adversary clumsy"
    window = 100_000
    """The window of a typical model."""

    async def ask(self, request: ModelRequest) -> Reply:
        turn = sum(isinstance(item, Reply) for item in request.history)
        uses = MISTAKES[turn] if turn < len(MISTAKES) else (FOR_EVER,)
        calls = tuple(Call(f"try-{turn}-{place}", *use) for place, use in enumerate(uses, 1))
        talk = "" if calls else TALK
        return Reply(text=talk, calls=calls, stop="calls" if calls else "end", usage=FREE, model=self.name)
