"""A worker that makes a mistake, corrects it, and asks a question. Repeating its acts does no harm."""

from __future__ import annotations

from typing import TypeVar

from hotdesk.brain.models.script_hands import ToolCall
from hotdesk.brain.models.scripted import Failed, Hands, step

SERVER = "rm -f twelve; mkfifo twelve; (while :; do echo 12 > twelve; done) > /dev/null 2>&1 &"
TABLE = "(echo What,Count; tr ' ' , < stock.txt) | head -n $(({rows} + 1)) > list.csv"
CALL = "timeout 3 head -n 1 twelve"
T = TypeVar("T")


async def count(hands: Hands) -> str:
    """Count the stock; correct the step that fails."""
    await surely(hands.remember("The word of the day is walnut."))
    first = await surely(
        hands.run(["sh", "-c", "echo begun >> log; awk '{n += $2} END {print n}' stok.txt > count.txt"])
    )
    if not first.ok:
        hands.say("The name was wrong.")
        second = await surely(hands.run(["sh", "-c", "awk '{n += $2} END {print n}' stock.txt > count.txt"]))
        assert second.ok, second.stderr
    both = await hands.together(hands.read("count.txt"), hands.read("stock.txt"))
    return f"there are {both[0].decode().strip()}"


async def tidy(hands: Hands) -> str:
    if hands.attempt == 1:
        await surely(hands.run(["rm", "stock.txt", "count.txt"]))
        raise ValueError("that was too much")
    await surely(hands.run(["rm", "-f", "log"]))
    return "tidied"


async def serve(hands: Hands) -> str:
    started = await surely(hands.run(["sh", "-c", SERVER], timeout=20))
    assert started.ok, started.stderr
    return "it runs"


async def call(hands: Hands) -> str:
    told = await surely(hands.run(["sh", "-c", CALL], timeout=20))
    assert told.ok, told.stderr
    await surely(hands.write("told.txt", told.stdout))
    return "it said so"


async def apart(hands: Hands) -> str:
    there = await surely(hands.run(["ls"]))
    assert set(there.stdout.split()) <= {b"told.txt", b"double", b"double.txt", b"litter"}, there.stdout
    await surely(hands.run(["sh", "-c", "mkdir -p double; echo $(( $(cat told.txt) * 2 )) | tee double.txt > litter"]))
    return "it is doubled"


async def again(hands: Hands) -> str:
    there = await surely(hands.run(["sh", "-c", "cat litter > double/copy.txt"]))
    assert there.ok, there.stderr
    return "it is copied"


async def ask(hands: Hands) -> str:
    name = await surely(hands.ask("What is it called?"))
    await surely(hands.write("answer.txt", name.strip().splitlines()[0].encode()))
    return "now it has a name"


async def write(hands: Hands) -> str:
    known = await surely(hands.recall("word of the day"))
    assert "walnut" in known, known
    found = await surely(hands.run(["sh", "-c", "cat count.txt told.txt double.txt double/copy.txt; ls -1"]))
    assert found.ok, found.stderr
    await surely(hands.write("result.txt", found.stdout))
    return "written"


async def table(hands: Hands) -> str:
    rows = 3 if "list.csv failed its checks" in hands.before else 2
    await surely(hands.run(["sh", "-c", TABLE.format(rows=rows)]))
    return "tabled"


PLAN = (
    step(count, makes=["count.txt"]),
    step(tidy, risk="high"),
    step(serve, live=True),
    step(call, keeps=True, makes=["told.txt"]),
    step(apart, desk="fresh", files=["told.txt"], makes=["double.txt"], risk="high"),
    step(again, keeps=True, makes=["double"]),
    step(ask, makes=["answer.txt"]),
    step(write, makes=["result.txt"]),
    step(table, makes=["list.csv"]),
)


async def surely(wanted: ToolCall[T]) -> T:
    try:
        return await wanted
    except Failed:
        return await wanted
