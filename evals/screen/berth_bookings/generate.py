"""Write a harbour program with its data, requests, and the task: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import marshal
import random
import sys
import zipfile
import zlib
from datetime import date, timedelta
from hashlib import sha256
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

PROGRAM = """
import csv, json, sys, tkinter, zlib
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

HOME = Path(sys.argv[0]).resolve().parent
STORE = HOME / "harbour.dat"


def pad(size):
    return b"".join(sha256(b"KEY%d" % block).digest() for block in range(size // 32 + 1))


def code(data):
    return bytes(one ^ other for one, other in zip(data, pad(len(data))))


state = json.loads(zlib.decompress(code(STORE.read_bytes())))
root = tkinter.Tk()
root.title("Harbour 1.4")
root.geometry("820x600+160+60")
root.configure(bg="#d0d0d0")
entries = []
for place, name in enumerate(("Request", "Boat", "Berth", "Arrival (day/month/year)", "Nights")):
    label = tkinter.Label(root, text=name, bg="#d0d0d0", font=("DejaVu Sans", 13), anchor="e")
    label.place(x=10, y=30 + 60 * place, width=270, height=40)
    entry = tkinter.Entry(root, bg="white", font=("DejaVu Sans", 16))
    entry.place(x=300, y=30 + 60 * place, width=400, height=40)
    entries.append(entry)
message = tkinter.Label(root, bg="#fffff0", font=("DejaVu Sans", 18), anchor="w", padx=12, text="Ready")
message.place(x=30, y=440, width=760, height=60)


def seal(row):
    return sha256(("KEY" + "|".join(map(str, row))).encode()).hexdigest()[:12]


def say(text, clear=False):
    message.configure(text=text)
    for entry in entries if clear else ():
        entry.delete(0, "end")
    entries[0].focus_set()


def book(event=None):
    request, boat, berth, arrival, nights = (entry.get().strip() for entry in entries)
    try:
        first = datetime.strptime(arrival, "%d/%m/%Y").date()
        last = first + timedelta(days=int(nights))
    except ValueError:
        return say("Refused: date or nights not understood")
    if berth not in state["berths"] or not request or not boat:
        return say("Refused: no such berth, or a field is empty")
    for _, _, other, start, count in state["bookings"]:
        begin = datetime.strptime(start, "%Y-%m-%d").date()
        if other == berth and begin < last and first < begin + timedelta(days=count):
            return say(f"Refused: {berth} is taken then", clear=True)
    state["bookings"].append([request, boat, berth, str(first), int(nights)])
    STORE.write_bytes(code(zlib.compress(json.dumps(state).encode())))
    say(f"Booked {berth} for request {request}", clear=True)


def export(month):
    rows = [row for row in state["bookings"] if not month or row[3].startswith("MONTH")]
    with (HOME / "bookings.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Request", "Boat", "Berth", "Arrival", "Nights", "Seal"])
        writer.writerows([*row, seal(row)] for row in rows)
    say(f"Exported {len(rows)} bookings to bookings.csv")


bar = tkinter.Menu(root, font=("DejaVu Sans", 13))
menu = tkinter.Menu(bar, tearoff=0, font=("DejaVu Sans", 13))
menu.add_command(label="Export this month", underline=7, command=lambda: export(True))
menu.add_command(label="Export all", underline=7, command=lambda: export(False))
bar.add_cascade(label="File", underline=0, menu=menu)
root.configure(menu=bar)
button = tkinter.Button(root, text="Book", font=("DejaVu Sans", 14), command=book)
button.place(x=300, y=350, width=160, height=50)
for entry in entries:
    entry.bind("<Return>", book)
entries[0].focus_set()
root.mainloop()
"""
BOATS = ("Albatross", "Blue Heron", "Corsair", "Dolphin", "Evening Star", "Fulmar", "Gannet", "Halcyon", "Ibis",
         "Jolly", "Kittiwake", "Lapwing", "Merlin", "Nightjar", "Osprey", "Petrel", "Quail", "Redshank")  # fmt: skip
BERTHS = {"A1": 8, "A2": 8, "A3": 10, "B1": 10, "B2": 12, "B3": 12, "C1": 15, "C2": 15}
"""Berths in the order in which they are given out, and the metres they take."""
TASK = """# Book the requests

Harbour is an old program with a window and nothing else: start it with `python3 harbour.pyz`. Its file harbour.dat
has a private format: do not read or write it yourself. It already holds bookings, which the window does not list.

Book every request of requests.csv, in the order of the file, with its form (Tab moves on, Return books).

1. berths.csv lists the berths in the order in which they are given out. Try the first one that is at least as long
   as the boat; if the program refuses it because it is taken, try the next one that is long enough, and so on.
2. The dates in requests.csv are written year-month-day; the program wants day/month/year, as 24/06/2026.
3. Two requests of the same boat for the same arrival are one request, sent twice: book the first, leave the second out.
4. A boat that is longer than every berth, or finds all of its berths taken, is not booked.

Then export all bookings with the program's menu File. It writes bookings.csv, with a seal in every row that only the
program can make. Deliver that file as it is.
"""
GOAL = """
Enter booking requests into an old harbour program by its window, and export the bookings through its menu. TASK.md
says how; requests.csv and berths.csv are what you need beside the program. Deliver bookings.csv, as the program
exports it.
"""


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same requests
    existing = [[f"R{900 + place}", f"Guest {place}", berth, str(date(2026, 6, 1) + timedelta(days=10 * place)), 10]
                for berth in ("A1", "A3", "B2") for place in range(6)]  # fmt: skip
    requests = make_requests(chance)
    bookings = [list(row) for row in existing]
    for request in requests:
        book(bookings, *request)
    key = f"{chance.getrandbits(64):016x}"
    Path("brief").mkdir()
    Path("hidden").mkdir()
    write_program(Path("brief/harbour.pyz"), PROGRAM.replace("KEY", key).replace("MONTH", "2026-06"))
    log = [chance.randint(1, 10**12) for _ in range(3000)]
    state = {"berths": list(BERTHS), "bookings": existing, "log": log}
    Path("brief/harbour.dat").write_bytes(scramble(state, key))
    lines = [f"{number},{boat},{length},{day},{nights}\n" for number, boat, length, day, nights in requests]
    Path("brief/requests.csv").write_text("Request,Boat,Length in metres,Arrival,Nights\n" + "".join(lines))
    lines = [f"{berth},{length}\n" for berth, length in BERTHS.items()]
    Path("brief/berths.csv").write_text("Berth,Longest boat in metres\n" + "".join(lines))
    Path("brief/TASK.md").write_text(TASK)
    Path("hidden/truth.json").write_text(json.dumps({"bookings": bookings, "key": key, "existing": len(existing)}))
    Path("brief/brief.toml").write_text(
        f'goal = """{GOAL}"""\ninputs = ["harbour.pyz", "harbour.dat", "requests.csv", "berths.csv", "TASK.md"]\n'
        'image = "desktop"\nseconds = 1200\n\n[[deliverables]]\npath = "bookings.csv"\ncheck = "csv"\n\n'
        '[deliverables.expect]\ncolumns = ["Request", "Boat", "Berth", "Arrival", "Nights", "Seal"]\n'
        f'rows = {{min = {len(existing) + 1}}}\nnumeric = ["Nights"]\nunique = ["Seal"]\n'
    )


def make_requests(chance: random.Random) -> list[tuple[str, str, int, str, int]]:
    """Make requests: days that could be months, a repeated one, a too long boat, and enough to fill the berths."""
    boats, requests = chance.sample(BOATS, 8), []
    lengths = [8, 7, 10, 9, 12, 11, 16, chance.choice([8, 10])]
    chance.shuffle(lengths)
    for place, (boat, length) in enumerate(zip(boats, lengths, strict=True), 1):
        day = date(2026, chance.choice([6, 7]), chance.randint(1, 12))
        requests.append((f"R{place}", boat, length, str(day), chance.randint(2, 6)))
    again = next(request for request in requests if request[2] != 16)
    requests.insert(chance.randint(5, 7), (f"R{len(requests) + 1}", *again[1:]))
    return requests


def book(bookings: list[list[Any]], request: str, boat: str, length: int, arrival: str, nights: int) -> None:
    """Book a request by the rules of the task."""
    first = date.fromisoformat(arrival)
    if any(other[1] == boat and other[3] == arrival for other in bookings):
        return
    for berth, longest in BERTHS.items():
        taken = [(date.fromisoformat(day), count) for _, _, other, day, count in bookings if other == berth]
        free = all(first + timedelta(nights) <= day or day + timedelta(count) <= first for day, count in taken)
        if length <= longest and free:
            bookings.append([request, boat, berth, arrival, nights])
            return


def write_program(path: Path, source: str) -> None:
    """Write a program without its source: a zip of bytecode that Python can run."""
    code = compile(source, "harbour", "exec")
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
