"""The reference solution, a written script: read every page that may decide, apply the rules, write the table."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = '''import csv
import re
from datetime import date, datetime
from urllib.request import urlopen

REGISTER, BOARD = "https://register.example.test", "https://waterboard.example.test"
CUT_OFF = date(2025, 6, 30)


def fetch(address):
    with urlopen(address, timeout=30) as reply:
        return reply.read().decode()


def day_of(text, form="%d %B %Y"):
    return datetime.strptime(text, form).date()


def read_notices():
    """Return the notices on each name: date, address, text."""
    found, path = {}, "/notices?page=1"
    while path:
        listing = fetch(REGISTER + path)
        for each in re.findall(r"<a href=(/notices/\\d+)>", listing):
            text = fetch(REGISTER + each)
            name = re.search(r"<h1>Notice \\d+: (.*?)</h1>", text)[1]
            day = day_of(re.search(r"Dated (.*?)\\.<p>", text)[1])
            found.setdefault(name, []).append((day, REGISTER + each, text))
        older = re.search(r"<a href=(/notices\\?page=\\d+)>Older", listing)
        path = older and older[1]
    return found


def decide(name, number, notices):
    valid = sorted(each for each in notices if each[0] <= CUT_OFF)
    errors = re.findall(r"The notice of (.*?) on .*? is withdrawn", " ".join(text for *_, text in valid))
    withdrawn = {day_of(day) for day in errors}
    for day, address, text in reversed(valid):
        figure = re.search(r" to ([\\d.]+) million", text)
        if figure and day not in withdrawn:
            return figure[1], address, day
    address = f"{REGISTER}/dams/{number}"
    text = fetch(address)
    if figure := re.search(r"<dd>([\\d.]+) million", text):
        return figure[1], address, day_of(re.search(r"Entry of<dd>(.*?)</dl>", text)[1])
    address = f"{BOARD}/reservoirs/{name.lower().replace(' ', '-')}"
    surveys = re.findall(r"<tr><td>([\\d/]+)<td>([\\d,]+)", fetch(address))
    dated = [(day_of(day, "%d/%m/%Y"), size) for day, size in surveys]
    day, size = max(each for each in dated if each[0] <= CUT_OFF)
    return f"{int(size.replace(',', '')) / 1000:.2f}", address, day


notices = read_notices()
with open("reservoirs.csv", newline="") as file:
    reservoirs = list(csv.reader(file))[1:]
with open("capacities.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Reservoir", "Capacity", "Source", "Date"])
    for name, number in reservoirs:
        writer.writerow([name, *decide(name, number, notices.get(name, []))])
'''


async def research(hands: Hands) -> Done:
    """Read the register, its notices and the operator's pages; write the table."""
    await hands.write("research.py", PROGRAM.encode())
    return await hands.run(["python3", "research.py"], timeout=200)


PLAN = (step(research, files=["TASK.md", "reservoirs.csv"], makes=["capacities.csv"]),)
