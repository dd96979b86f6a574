"""Write a storeroom program with its data, and the task: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import marshal
import random
import sys
import zipfile
import zlib
from hashlib import sha256
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

PROGRAM = """
import json, sys, tkinter, zlib
from hashlib import sha256
from pathlib import Path

FIELDS = ("Item", "Name", "Bin", "On hand", "Unit", "Reserved (pieces)", "Reorder below (pieces)", "Status")
stored = Path(sys.argv[0]).resolve().with_name("storeroom.dat").read_bytes()
pad = b"".join(sha256(b"KEY%d" % block).digest() for block in range(len(stored) // 32 + 1))
cards = json.loads(zlib.decompress(bytes(one ^ other for one, other in zip(stored, pad))))["cards"]
root = tkinter.Tk()
root.title("Storeroom 2.1")
root.geometry("820x640+160+50")
root.configure(bg="#d0d0d0")
values = []
for place, name in enumerate((*FIELDS, "Card")):
    label = tkinter.Label(root, text=name, bg="#d0d0d0", font=("DejaVu Sans", 13), anchor="e")
    label.place(x=10, y=14 + 60 * place, width=270, height=46)
    value = tkinter.Label(root, bg="#fffff0", fg="black", font=("DejaVu Sans", 20), anchor="w", padx=12)
    value.place(x=300, y=14 + 60 * place, width=490, height=46)
    values.append(value)
shown = 0

def show(step):
    global shown
    shown = max(0, min(len(cards) - 1, shown + step))
    texts = [*map(str, cards[shown]), f"{shown + 1} of {len(cards)}"]
    for value, text in zip(values, texts):
        value.configure(text=text)

for text, step, x in (("Previous", -1, 300), ("Next", 1, 460)):
    button = tkinter.Button(root, text=text, font=("DejaVu Sans", 13), command=lambda step=step: show(step))
    button.place(x=x, y=570, width=140, height=44)
root.bind("<Left>", lambda event: show(-1))
root.bind("<Right>", lambda event: show(1))
show(0)
root.mainloop()
"""
NAMES = ("Hex bolt", "Copper wire", "Paint brush", "Door hinge", "Work glove", "Light switch", "Pipe clamp",
         "Wood screw", "Saw blade", "Hose fitting", "Sand paper", "Cable drum", "Floor tile", "Roof nail",
         "Steel chain", "Water pump", "Test lamp", "Fuse holder")  # fmt: skip
GOAL = """
Storeroom is an old program with a window and nothing else: start it with `python3 storeroom.pyz`, and go from card
to card with its buttons or the keys Left and Right. Its file storeroom.dat has a private format: do not decode it,
read the window.

Find what must be reordered. A card shows how much is on hand, in pieces or in dozens (12 pieces), as its Unit says;
Reserved and Reorder below are always in pieces. Free is what is on hand, in pieces, less what is reserved. An item
must be reordered if its Status is active and Free is less than Reorder below. Two cards with the same name are two
items.

Deliver reorder.csv with the columns Item, Name, Free, Missing, a row for each item that must be reordered, in the
order of the cards. Free and Missing are in pieces; Missing is Reorder below less Free.
"""


def main() -> None:
    """Write brief/ and hidden/."""
    seed = int(sys.argv[1])
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same cards
    cards = make_cards(chance)
    Path("brief").mkdir()
    Path("hidden").mkdir()
    key = f"{chance.getrandbits(64):016x}"
    write_program(Path("brief/storeroom.pyz"), PROGRAM.replace("KEY", key))
    movements = [[chance.randint(1, 10**9) for _ in range(4)] for _ in range(900)]
    Path("brief/storeroom.dat").write_bytes(scramble({"cards": cards, "movements": movements}, key))
    rows = [row for row in map(judge, cards) if row]
    Path("hidden/truth.json").write_text(json.dumps({"rows": rows, "cards": cards}))
    Path("brief/brief.toml").write_text(
        f'goal = """{GOAL}"""\ninputs = ["storeroom.pyz", "storeroom.dat"]\nimage = "desktop"\nseconds = 1200\n\n'
        '[[deliverables]]\npath = "reorder.csv"\ncheck = "csv"\n\n[deliverables.expect]\n'
        'columns = ["Item", "Name", "Free", "Missing"]\nrows = {min = 1}\n'
        'numeric = ["Free", "Missing"]\nunique = ["Item"]\n'
    )


def make_cards(chance: random.Random) -> list[list[Any]]:
    """Make cards of every kind: dozens, reserved pieces that decide, items that are no longer sold, a name twice."""
    kinds = ["low", "low", "low", "dozens low", "dozens enough", "dozens enough", "reserved", "reserved",
             "discontinued", "discontinued", "equal", "enough", "enough", "enough"]  # fmt: skip
    chance.shuffle(kinds)
    names = chance.sample(NAMES, len(kinds))
    names[-1] = names[2]
    cards = []
    for kind, name, item in zip(kinds, names, chance.sample(range(2000, 9000), len(kinds)), strict=True):
        level, reserved, unit = chance.randint(50, 400), chance.randint(0, 20), "pieces"
        hand = level + reserved + chance.randint(1, 150)
        if kind in ("low", "discontinued"):
            hand = chance.randint(reserved, level + reserved - 1)
        elif kind == "reserved":
            reserved = chance.randint(60, 200)
            hand = level + chance.randint(1, reserved - 1)
        elif kind == "equal":
            hand = level + reserved
        elif kind.startswith("dozens"):
            unit = "dozen"
            extra = -chance.randint(1, 3) if kind == "dozens low" else chance.randint(1, 9)
            hand = max(1, -(-(level + reserved) // 12) + extra)
        status = "discontinued" if kind == "discontinued" else "active"
        cards.append(
            [item, name, f"{chance.choice('ACEHK')} {chance.randint(10, 99)}", hand, unit, reserved, level, status]
        )
    return cards


def judge(card: list[Any]) -> list[Any]:
    """Return the row of a card that must be reordered, or nothing."""
    item, name, _, hand, unit, reserved, level, status = card
    free = hand * (12 if unit == "dozen" else 1) - reserved
    return [item, name, free, level - free] if status == "active" and free < level else []


def write_program(path: Path, source: str) -> None:
    """Write a program without its source: a zip of bytecode that Python can run."""
    code = compile(source, "storeroom", "exec")
    data = MAGIC_NUMBER + bytes([1, 0, 0, 0]) + bytes(8) + marshal.dumps(code)  # an unchecked hash: no source, no date
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.pyc"), data)


def scramble(data: object, key: str) -> bytes:
    """Write data as the program reads it."""
    plain = zlib.compress(json.dumps(data).encode())
    pad = b"".join(sha256(f"{key}{block}".encode()).digest() for block in range(len(plain) // 32 + 1))
    return bytes(one ^ other for one, other in zip(plain, pad, strict=False))


if __name__ == "__main__":
    main()
