"""Invent the members of an association, and write the brief that asks to import them elsewhere."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

FIRST = (
    "Ana Björn Chloé Dirk Élise François Greta Håkon Inês Jürgen Katja Luís Märta Nuño Ólafur Paul Rosa Søren".split()
)
LAST = "Åberg Brandão Conti Dufour Engström Fürst García Høst Ibsen Jäger Klein López Müller Núñez Østby Petit".split()
COUNTRIES = {
    "Austria": "AT", "Denmark": "DK", "France": "FR", "Germany": "DE", "Iceland": "IS", "Norway": "NO",
    "Portugal": "PT", "Spain": "ES", "Sweden": "SE",
}  # fmt: skip
PLAIN = str.maketrans("åäáãöøóüúéêíñç", "aaaaooouueeinc")
BRIEF = """\
goal = \"\"\"
Bring members of the association from the member site to the newsletter site.
1. Sign in at https://members.example.test/login as clerk (password: environment variable MEMBERS_PASSWORD) and
   download https://members.example.test/members/export.csv. The pages of https://members.example.test/objections list
   members who object to newsletters.
2. Write import.csv as the page https://news.example.test/format describes, which needs the sign-in of step 3, with
   every member who is active, has given consent and does not object. An e-mail address counts once, whatever its
   case: keep the member with the lowest number. Sort by member number.
3. Sign in at https://news.example.test/login as editor (password: environment variable NEWS_PASSWORD) and import the
   file into the list "Spring letter 2025", by its page. An import adds its rows to the list; make exactly one that is
   accepted.
Both variables hold placeholders that work in the forms of their site. Deliver import.csv, the file that was imported.
\"\"\"
inputs = ["countries.csv"]
image = "desktop"
seconds = 1500
approve = "auto"
egress = [
    "GET https://members.example.test/**",
    "POST https://members.example.test/login",
    "GET https://news.example.test/**",
    "POST https://news.example.test/login",
    "POST https://news.example.test/lists/*/import",
]
grants = [
    "members-password@members.example.test form=password:POST:/login env=MEMBERS_PASSWORD",
    "news-password@news.example.test form=password:POST:/login env=NEWS_PASSWORD",
]

[[deliverables]]
path = "import.csv"
check = "csv"

[deliverables.expect]
delimiter = ";"
columns = ["email", "first_name", "last_name", "country"]
rows = {min = 1}
unique = ["email"]
"""


def invent(chance: random.Random) -> list[dict[str, Any]]:
    """Return the members; some share an address, in another case."""
    members: list[dict[str, Any]] = []
    names = chance.sample([(first, last) for first in FIRST for last in LAST], 180)
    for place, (first, last) in enumerate(names):
        address = f"{first}.{last}@mail.example".lower().translate(PLAIN)
        members.append(
            {
                "number": 3001 + 2 * place, "first": first, "last": last, "email": address,
                "country": chance.choice(list(COUNTRIES)), "active": chance.random() < 0.8,
                "consent": chance.random() < 0.8, "objects": chance.random() < 0.12,
            }
        )  # fmt: skip
    for place in chance.sample(range(60, 180), 8):
        twin = chance.choice(members[:50])
        members[place] |= {"email": twin["email"].upper(), "active": True, "consent": True, "objects": False}
        twin |= {"active": True, "consent": True, "objects": False}
    return members


def choose(members: list[dict[str, Any]]) -> list[list[str]]:
    """Return the rows that must be imported."""
    rows: dict[str, list[str]] = {}
    for each in members:
        if each["active"] and each["consent"] and not each["objects"]:
            address = each["email"].lower()
            rows.setdefault(address, [address, each["first"], each["last"], COUNTRIES[each["country"]]])
    return list(rows.values())


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same members
    Path("brief").mkdir()
    Path("hidden").mkdir()
    members = invent(chance)
    lines = ["Country,Code", *(f"{name},{code}" for name, code in COUNTRIES.items())]
    Path("brief/countries.csv").write_text("\n".join([*lines, ""]))
    Path("brief/brief.toml").write_text(BRIEF)
    letters = "abcdefghkmnpqrstuvwxyz23456789"
    passwords = {name: "".join(chance.choices(letters, k=20)) for name in ("members", "news")}
    truth = {"passwords": passwords, "members": members, "rows": choose(members), "list": f"L{chance.randint(20, 60)}"}
    Path("hidden/truth.json").write_text(json.dumps(truth, indent=1))


if __name__ == "__main__":
    main()
