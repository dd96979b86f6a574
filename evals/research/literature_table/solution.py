"""The reference solution, a written script: follow every result to its article, apply the criteria, write the table."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = '''import csv
import html
import re
from urllib.request import urlopen

SITE = "https://library.example.test"


def fetch(address):
    """Return the address a page was found at in the end, and the page."""
    with urlopen(address, timeout=30) as reply:
        return reply.url, reply.read().decode()


def list_results():
    """Return the identifiers of all pages of results."""
    found, path = [], "/search?q=evening+light&page=1"
    while path:
        _, text = fetch(SITE + path)
        found += re.findall(r"<li><a href=(\\S+?)>", text)
        more = re.search(r"<a href='([^']+)'>Next page", text)
        path = more and html.unescape(more[1])
    return found


rows = []
for identifier in list_results():
    address, text = fetch(identifier)
    author, year = re.search(r"<p>(\\w+) et al., (\\d{4})\\.", text).groups()
    analysed = int(re.search(r"analysed (\\d+)\\.", text)[1])
    effect, unit = re.search(r"at 12 weeks ([+-][\\d.]+) (minutes|h)", text).groups()
    minutes = float(effect) * (60 if unit == "h" else 1)
    randomised = "Design: a randomised controlled trial" in text
    adults = int(re.search(r"aged (\\d+) to", text)[1]) >= 18
    excluded = "Retraction notice" in text or "Preprint. The journal's version" in text
    if randomised and adults and analysed >= 100 and 2015 <= int(year) <= 2024 and not excluded:
        rows.append([author, int(year), analysed, f"{minutes:.1f}", address])
rows.sort(key=lambda row: (row[1], row[0]))
with open("literature.csv", "w", newline="") as file:
    csv.writer(file).writerows([["Author", "Year", "Analysed", "Effect", "Link"], *rows])
'''


async def collect(hands: Hands) -> Done:
    """Read all results and articles; write the table."""
    await hands.write("collect.py", PROGRAM.encode())
    return await hands.run(["python3", "collect.py"], timeout=200)


PLAN = (step(collect, files=["TASK.md"], makes=["literature.csv"]),)
