"""Write two waves of a survey with all that goes wrong in surveys, and the rules for cleaning them."""

from __future__ import annotations

import csv
import json
import random
import sys
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

FIRST = "Ada Ben Cara Dan Eva Finn Gina Hugo Ida Jan Kira Leo Mona Nils Olga Paul Quinn Rita Sam Tara".split()
LAST = "Abel Brandt Conti Dufour Egger Fox Garcia Holm Ivers Jung Klein Lopez Moreau Novak Orlov".split()
DEPARTMENTS = {
    "Engineering": ("Engineering", "Eng.", "R&D", "engineering"),
    "Operations": ("Operations", "Ops", "operations ", "Oper."),
    "People": ("People", "HR", "Human Resources", "Personnel"),
    "Sales": ("Sales", "sales", "Sales & Marketing", "Sls"),
}
SCALE = {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 5, 10: 5}
"""What answers of the second wave mean in the first."""
BAD_AGES = ("", "n/a", "0", "7", "130", "-")
TASK = """# Rules for cleaning the survey

Inputs: `wave1.xlsx` (sheet Responses) and `wave2.csv`. Other sheets of the workbook are drafts and do not count.

1. Leave out test entries: every response whose address ends in `@test.example`.
2. An e-mail address is one person, whatever its case and the spaces around it. If a person answered more than once,
   in one wave or in both, keep only the latest response by the time in Submitted. Two addresses are two people, even
   if the names are the same.
3. Times are `YYYY-MM-DD HH:MM` in wave 1 and `DD/MM/YYYY HH:MM` in wave 2.
4. Satisfaction is 1 to 5 in wave 1. Wave 2 asked on a scale of 0 to 10; convert: 0-2 is 1, 3-4 is 2, 5-6 is 3, 7-8 is
   4, 9-10 is 5.
5. Departments have four names. Map what people wrote:

| name | also written |
|---|---|
{departments}

   Case and spaces around it do not matter.
6. An age below 16 or above 99, or one that is not a number, is unknown: leave the cell empty, keep the response.

Write two files, UTF-8, with commas:

- `clean.csv`: the columns Email (lower case), Department, Age, Satisfaction, Wave (1 or 2), Submitted (`YYYY-MM-DD
  HH:MM`); one row for each person, sorted by Email.
- `summary.csv`: the columns Department, Responses, Satisfaction, Age; one row for each department, sorted by name,
  then a row `All`. Satisfaction is the mean to two decimals; Age is the mean of the known ages to one decimal. Round
  half up.
"""
BRIEF = """\
goal = "Clean the two waves of the survey by the rules in TASK.md; write clean.csv and summary.csv as it says."
inputs = ["TASK.md", "wave1.xlsx", "wave2.csv"]
image = "office"
seconds = 1200
approve = "auto"

[[deliverables]]
path = "clean.csv"
check = "csv"

[deliverables.expect]
columns = ["Email", "Department", "Age", "Satisfaction", "Wave", "Submitted"]
rows = {min = 1}
numeric = ["Satisfaction", "Wave"]
unique = ["Email"]

[[deliverables]]
path = "summary.csv"
check = "csv"

[deliverables.expect]
columns = ["Department", "Responses", "Satisfaction", "Age"]
rows = 5
numeric = ["Responses", "Satisfaction", "Age"]
unique = ["Department"]
"""


def respond(chance: random.Random, wave: int, person: tuple[str, str]) -> dict[str, Any]:
    """Return one response: what was written, and what it means."""
    name, email = person
    days = chance.randint(0, 40)
    time = datetime(2025, 3 if wave == 1 else 4, 1, 8, 0) + timedelta(days=days, minutes=chance.randint(0, 700))
    department = chance.choice(list(DEPARTMENTS))
    is_known = chance.random() < 0.9
    age = chance.randint(18, 67) if is_known else None
    answer = chance.randint(1, 5) if wave == 1 else chance.randint(0, 10)
    address = chance.choice((email, email, email.title(), email.upper(), f" {email} "))
    return {
        "email": email, "department": department, "age": age, "wave": wave,
        "satisfaction": answer if wave == 1 else SCALE[answer], "submitted": time.strftime("%Y-%m-%d %H:%M"),
        "raw": (
            time.strftime("%Y-%m-%d %H:%M" if wave == 1 else "%d/%m/%Y %H:%M"), name, address,
            chance.choice(DEPARTMENTS[department]), str(age) if is_known else chance.choice(BAD_AGES), answer,
            chance.choice(("", "", "Fine so far.", "Too many meetings, too few desks.", "More light, please.")),
        ),
    }  # fmt: skip


def invent(chance: random.Random) -> list[dict[str, Any]]:
    """Return all responses, in the order in which they came."""
    people = [
        (f"{first} {last}", f"{first}.{last}@harrow.example".lower())
        for first, last in chance.sample([(first, last) for first in FIRST for last in LAST], 210)
    ]
    people += [(name, email.replace("@", "2@")) for name, email in people[:6]]  # namesakes
    responses = [respond(chance, 1, person) for person in people[:130]]
    responses += [respond(chance, 2, person) for person in people[95:]]
    responses += [respond(chance, 1, person) for person in chance.sample(people[:90], 9)]
    responses += [respond(chance, 2, person) for person in chance.sample(people[140:], 9)]
    responses += [respond(chance, wave, ("Test", f"form{wave}@test.example")) for wave in (1, 1, 2)]
    responses += [respond(chance, 2, ("Test", "QA.Lead@test.example".lower()))]
    chance.shuffle(responses)
    return responses


def clean(responses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the latest response of each person."""
    latest: dict[str, dict[str, Any]] = {}
    for each in sorted(responses, key=lambda response: str(response["submitted"])):
        if not each["email"].endswith("@test.example"):
            latest[each["email"]] = each
    names = ("email", "department", "age", "satisfaction", "wave", "submitted")
    return [{name: latest[email][name] for name in names} for email in sorted(latest)]


def is_fair(responses: list[dict[str, Any]]) -> bool:
    """Return whether no person answered twice in the same minute."""
    keys = [(each["email"], each["submitted"]) for each in responses]
    return len(set(keys)) == len(keys)


def write_waves(responses: list[dict[str, Any]]) -> None:
    """Write both files."""
    head = ("Submitted", "Name", "E-mail", "Department", "Age", "Satisfaction", "Comment")
    rows = defaultdict(list)
    for each in responses:
        rows[each["wave"]].append(each["raw"])
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Responses"
    for row in (head, *rows[1]):
        sheet.append(row)
    draft = book.create_sheet("Drafts")
    for row in (head, *rows[1][:12]):
        draft.append([*row[:5], 1, "draft"] if row is not head else row)
    draft.sheet_state = "hidden"
    book.save("brief/wave1.xlsx")
    with Path("brief/wave2.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows((head, *rows[2]))


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same survey
    Path("brief").mkdir()
    Path("hidden").mkdir()
    responses = invent(chance)
    while not is_fair(responses):
        responses = invent(chance)
    write_waves(responses)
    written = "\n".join(f"| {name} | {', '.join(also[1:]).strip()} |" for name, also in DEPARTMENTS.items())
    Path("brief/TASK.md").write_text(TASK.format(departments=written))
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({"rows": clean(responses)}, indent=1))


if __name__ == "__main__":
    main()
