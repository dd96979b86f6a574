"""Write the repository of a seed, with one planted bug, its brief, and the hidden tests: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

GIT = ["git", "-c", "user.name=A. Clerk", "-c", "user.email=clerk@example.test", "-c", "commit.gpgsign=false"]
GIT_ENV = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}

UNITS = '''"""Weights and lengths as customers write them."""

import re

GRAMS = {"g": 1.0, "kg": 1000.0, "oz": 28.349523125, "lb": 453.59237}
MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4}
PART = re.compile(r"(\\d+(?:\\.\\d+)?)\\s*([a-z]+)")


def parse_weight(text: str) -> int:
    """Return grams, rounded to whole ones: `750 g`, `1.5 kg`, `2 lb 3 oz`."""
    total = 0.0
    for number, unit in PART.findall(text.lower()):
        total += float(number) * GRAMS[unit]
    return round(total)


def parse_length(text: str) -> float:
    """Return millimetres: `300 mm`, `30 cm`, `12 in`."""
    [(number, unit)] = PART.findall(text.lower())
    return float(number) * MILLIMETRES[unit]
'''
ZONES = '''"""Which zone a postcode belongs to."""

import csv
from functools import cache
from pathlib import Path
from typing import Any


@cache
def load_zones() -> dict[str, int]:
    """Return the zone of each prefix of a postcode."""
    with (Path(__file__).parent / "zones.csv").open(newline="") as file:
        return {row["prefix"]: int(row["zone"]) for row in csv.DictReader(file)}


def zone_of(postcode: str) -> int:
    """Return the zone of a postcode: the longest prefix listed for it decides."""
    zones = load_zones()
    for size in range(len(postcode), 0, -1):
        if postcode[:size] in zones:
            return zones[postcode[:size]]
    raise ValueError(f"no zone for {postcode}")
'''
PARCEL = '''"""A parcel as the customer describes it."""

from dataclasses import dataclass

from freight.units import parse_length, parse_weight
from freight.zones import zone_of

CUBIC_MM_A_GRAM = 5000


@dataclass(frozen=True)
class Parcel:
    """A weight, three lengths and a postcode, all as text."""

    weight: str
    size: tuple[str, str, str]
    postcode: str

    @property
    def grams(self) -> int:
        """Return the weight on the scale."""
        return parse_weight(self.weight)

    @property
    def volumetric_grams(self) -> int:
        """Return what the parcel counts as by its size."""
        length, width, height = (parse_length(side) for side in self.size)
        return round(length * width * height / CUBIC_MM_A_GRAM)

    @property
    def billable_grams(self) -> int:
        """Return the larger of both."""
        return max(self.grams, self.volumetric_grams)

    @property
    def zone(self) -> int:
        """Return the zone it goes to."""
        return zone_of(self.postcode)
'''
QUOTE = '''"""What sending a parcel costs."""

from freight.parcel import Parcel
from freight.tariff import price

FUEL_PERCENT = 6


def quote(parcel: Parcel) -> int:
    """Return cents: the price of weight and zone, and the fuel surcharge, rounded up."""
    cents = price(parcel.billable_grams, parcel.zone)
    return cents + -(-cents * FUEL_PERCENT // 100)
'''
TARIFF = '''"""Prices by weight and zone."""

BASE = {1: 450, 2: 620, 3: 990, 4: 1490}
EACH_STARTED_100_G = {1: 12, 2: 19, 3: 31, 4: 47}


def price(grams: int, zone: int) -> int:
    """Return cents: a base price, and one for each started 100 grams."""
    return BASE[zone] + -(-grams // 100) * EACH_STARTED_100_G[zone]
'''
LABEL = '''"""What is printed on a parcel."""

from freight.parcel import Parcel


def label(parcel: Parcel) -> str:
    """Return postcode, zone and weight on the scale."""
    return f"{parcel.postcode} Z{parcel.zone} {parcel.grams / 1000:.3f} kg"
'''
MANIFEST = '''"""What a van carries."""

from collections import Counter
from collections.abc import Iterable

from freight.parcel import Parcel


def grams_by_zone(parcels: Iterable[Parcel]) -> dict[int, int]:
    """Return the weight on the scale that goes to each zone."""
    total: Counter[int] = Counter()
    for parcel in parcels:
        total[parcel.zone] += parcel.grams
    return dict(total)


def litres(parcels: Iterable[Parcel]) -> float:
    """Return the room all parcels take, to a tenth."""
    return round(sum(parcel.volumetric_grams for parcel in parcels) * 5000 / 1e6, 1)
'''
TESTS = """import unittest

from freight.parcel import Parcel
from freight.quote import quote
from freight.tariff import price
from freight.units import parse_length, parse_weight
from freight.zones import zone_of


class QuoteTest(unittest.TestCase):
    def test_a_plain_parcel(self) -> None:
        self.assertEqual(quote(Parcel("750 g", ("200 mm", "100 mm", "100 mm"), "7")), {plain})

    def test_{name}(self) -> None:
        self.assertEqual(quote(Parcel{parcel}), {cents})


class PartsTest(unittest.TestCase):
    def test_a_started_100_grams_counts(self) -> None:
        self.assertEqual(price(101, 1), 450 + 2 * 12)

    def test_metric_units(self) -> None:
        self.assertEqual((parse_weight("1.5 kg"), parse_length("30 cm")), (1500, 300.0))

    def test_single_imperial_weights(self) -> None:
        self.assertEqual((parse_weight("2 lb"), parse_weight("8 oz")), (907, 227))

    def test_a_short_prefix(self) -> None:
        self.assertEqual(zone_of("7"), 1)
"""
BUGS = (
    (
        "units.py",
        "        total += float(number) * GRAMS[unit]\n",
        "        total = float(number) * GRAMS[unit]\n",
        "a_weight_in_pounds_and_ounces",
    ),
    (
        "zones.py",
        "    for size in range(len(postcode), 0, -1):\n",
        "    for size in range(1, len(postcode) + 1):\n",
        "a_town_with_a_zone_of_its_own",
    ),
    ("units.py", '"in": 25.4}', '"in": 25.0}', "a_box_measured_in_inches"),
)
"""By seed: the module, the right line, the wrong one, and the test that fails because of it."""
GOAL = """
A customer complains about a quote, and a test shows it: run `python3 -m unittest` in repo/, where one test fails.
Find the cause and repair it where it is: label and manifest show customers the same data, and must be right, too.
Change only files below freight/, no test and not freight/zones.csv, whose zones are right. Write the change to
fix.patch, as `git diff` prints it in repo/.
"""


def main() -> None:
    """Write brief/ and hidden/."""
    seed = int(sys.argv[1])
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same repository
    module, right, wrong, name = BUGS[seed % len(BUGS)]
    repo = Path("brief/repo")
    (repo / "freight").mkdir(parents=True)
    sources = {"units": UNITS, "zones": ZONES, "parcel": PARCEL, "quote": QUOTE, "tariff": TARIFF}
    for each, text in {**sources, "label": LABEL, "manifest": MANIFEST, "__init__": '"""Parcel freight."""\n'}.items():
        (repo / "freight" / f"{each}.py").write_text(text)
    zones = make_zones(chance)
    rows = "".join(f"{prefix},{zone}\n" for prefix, zone in sorted(zones.items()))
    (repo / "freight/zones.csv").write_text("prefix,zone\n" + rows)
    cases = [make_case(chance, zones, special=BUGS.index(bug)) for bug in BUGS for _ in range(12)]
    red = next(case for case in cases[12 * (seed % 3) :] if is_telling(case, zones, seed % 3))
    write_tests(repo, red, name)
    commit(repo, "Quotes, labels and manifests")
    path = repo / "freight" / module
    path.write_text(path.read_text().replace(right, wrong))
    commit(repo, f"Tidy {module.removesuffix('.py')}")
    shutil.copytree(repo, "hidden/repo", ignore=shutil.ignore_patterns(".git"))
    Path("hidden/unseen.json").write_text(json.dumps(cases))
    truth = {"module": f"freight/{module}", "right": right, "wrong": wrong, "red": red}
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief/brief.toml").write_text(brief(name))


def make_zones(chance: random.Random) -> dict[str, int]:
    """Choose zones of prefixes; 7 is zone 1, and some longer prefixes have another zone than their beginning."""
    zones = {str(digit): chance.randint(1, 4) for digit in range(10)} | {"7": 1}
    for _ in range(1500):
        prefix = str(chance.randint(10, 9999))
        zones[prefix] = chance.choice([zone for zone in (1, 2, 3, 4) if zone != zones[prefix[0]]])
    return zones


def make_case(chance: random.Random, zones: dict[str, int], special: int) -> dict[str, Any]:
    """Make a parcel that some bug would price wrongly, with its right price."""
    pounds, ounces = chance.randint(2, 40), chance.randint(1, 15)
    weight, grams = f"{pounds} lb {ounces} oz", round(pounds * 453.59237 + ounces * 28.349523125)
    if special != 0:
        grams = chance.randint(300, 2500)
        weight = f"{grams} g"
    inches = [chance.randint(14, 28) for _ in range(3)] if special == 2 else [4, 4, 4]
    sides = [f"{side} in" for side in inches] if special == 2 else ["100 mm"] * 3
    volume = inches[0] * inches[1] * inches[2] * 25.4**3 if special == 2 else 1e6
    prefix = chance.choice([each for each in zones if len(each) > 2]) if special == 1 else "7"
    postcode = prefix + "".join(chance.choice("01") for _ in range(5 - len(prefix))) if special == 1 else "7"
    zone = next(zones[postcode[:size]] for size in range(5, 0, -1) if postcode[:size] in zones)
    volumetric = round(volume / 5000)
    return {
        "weight": weight,
        "size": sides,
        "postcode": postcode,
        "cents": cents(max(grams, volumetric), zone),
        "label": f"{postcode} Z{zone} {grams / 1000:.3f} kg",
        "by_zone": {str(zone): grams},
        "litres": round(volumetric * 5000 / 1e6, 1),
    }


def is_telling(case: dict[str, Any], zones: dict[str, int], bug: int) -> bool:
    """Return whether a case fails visibly under a bug."""
    postcode = str(case["postcode"])
    return bug != 1 or next(iter(case["by_zone"])) != str(zones[postcode[0]])


def cents(grams: int, zone: int) -> int:
    """Return the right quote."""
    price = {1: 450, 2: 620, 3: 990, 4: 1490}[zone] + -(-grams // 100) * {1: 12, 2: 19, 3: 31, 4: 47}[zone]
    return price + -(-price * 6 // 100)


def write_tests(repo: Path, red: dict[str, Any], name: str) -> None:
    """Write the visible tests; one of them fails as long as the bug is there."""
    (repo / "tests").mkdir()
    (repo / "tests/__init__.py").write_text("")
    parcel = (red["weight"], tuple(red["size"]), red["postcode"])
    text = TESTS.format(plain=cents(750, 1), name=name, parcel=parcel, cents=red["cents"])
    (repo / "tests/test_quote.py").write_text(text)


def commit(repo: Path, subject: str) -> None:
    """Commit everything, at a fixed time."""
    when = {"GIT_AUTHOR_DATE": "2026-01-05T09:00:00Z", "GIT_COMMITTER_DATE": "2026-01-05T09:00:00Z"}
    steps = (
        ["init", "--quiet", "--template=", "--initial-branch=main"],
        ["add", "--all"],
        ["commit", "-qm", subject],
        ["read-tree", "--empty"],
        ["read-tree", "HEAD"],  # an index without the times of files is the same each time
    )
    for argv in steps:
        subprocess.run([*GIT, "-C", str(repo), *argv], env={**GIT_ENV, **when}, check=True)


def brief(name: str) -> str:
    """Return the brief, with the name of the failing test."""
    return (
        f'goal = """{GOAL}"""\ninputs = ["repo"]\nseconds = 900\n\n'
        '[[deliverables]]\npath = "fix.patch"\ncheck = "patch"\n\n[deliverables.expect]\nrepository = "repo"\n'
        f'tests = ["python3", "-B", "-m", "unittest", "-v"]\nred = ["test_{name}"]\nallowed = ["freight/*.py"]\n'
    )


if __name__ == "__main__":
    main()
