"""Generates a contract from a seed: clauses in any order and in many wordings; and the truth about it.

python3 contract.py FILE [SEED]
"""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import pdf

NAMES = ("Alder Freight GmbH", "Birch & Sons Ltd", "Cedar Lighting SAS", "Dogwood Office BV", "Elm Catering plc")
LAWS = ("Austria", "England and Wales", "Ireland", "the Netherlands", "the State of New York")
COUNTED = {
    12: "twelve", 18: "eighteen", 24: "twenty-four", 30: "thirty", 36: "thirty-six", 45: "forty-five", 60: "sixty",
    90: "ninety",
}  # fmt: skip
WAYS: Mapping[str, tuple[str, ...]] = {
    "parties": (
        'This Agreement is made between {0} ("the Supplier") and {1} ("the Customer").',
        "{0}, hereinafter the Supplier, and {1}, hereinafter the Customer, agree as follows.",
        'BETWEEN: (1) {0} (the "Supplier"); and (2) {1} (the "Customer").',
    ),
    "term": (
        "This Agreement remains in force for {word} ({n}) months from the Effective Date.",
        "The initial term is {n} months and begins on the Effective Date.",
        "It takes effect on the Effective Date and, unless ended earlier, expires {n} months thereafter.",
    ),
    "notice": (
        "Either party may terminate this Agreement by giving not less than {word} ({n}) days' written notice.",
        "Termination for convenience requires notice in writing of at least {n} days.",
        "The Customer and the Supplier may each end it at any time with {n} days' notice, given in text form.",
    ),
    "cap": (
        "The aggregate liability of either party shall not exceed EUR {n:,}.",
        "In no event is a party liable for more than {n:,} euros in total.",
        "Liability is limited, for all claims together, to EUR {dotted} in the aggregate.",
    ),
    "law": (
        "This Agreement is governed by the laws of {0}.",
        "The law of {0} applies, to the exclusion of its rules on conflicts of law.",
        "It shall be construed in accordance with the law of {0}.",
    ),
    "renewal": (
        "At the end of each term it is renewed automatically for a further {n} months.",
        "Unless notice is given, it renews by itself for successive periods of {n} months each.",
        "It does not renew: once the term has ended, a new agreement is needed.",
    ),
}
"""The wordings of each clause. The last one of a renewal states that there is none."""
HEADS = {"term": "Term", "notice": "Termination", "cap": "Liability", "law": "Applicable law", "renewal": "Renewal"}
FILLERS = {
    "Payment": "Invoices are payable within 30 days of receipt. Late sums bear interest of 5 per cent a year.",
    "Confidentiality": "Each party keeps secret what it learns of the other, for sixty (60) months after this ends.",
    "Insurance": "The Supplier maintains insurance of not less than EUR 5,000,000 for each event.",
    "Delivery": "The Supplier delivers within 14 days of an order. Partial deliveries are allowed where of use.",
    "Acceptance": "The Customer examines what is delivered within 10 days; silence thereafter counts as acceptance.",
    "Warranty": "The Supplier mends within 20 days what does not conform. The period of warranty is 24 months.",
    "Personal data": "The parties process personal data only as the law allows, and tell of a breach within 3 days.",
    "Subcontractors": "The Supplier may use others and answers for them. Their number is told once every 12 months.",
    "Force majeure": "Nobody answers for what could not be foreseen. After 90 days of it, the parties meet.",
    "Notices": "What is to be given in writing is sent to the addresses above, and holds as received after 3 days.",
    "Assignment": "Neither party transfers this Agreement without the consent of the other, which needs no form.",
    "Entire agreement": "This is all that was agreed. Changes are made in writing, and so are changes to this.",
}
LEFT, TOP, LINE, WIDE, LOWEST = 64, 90, 20, 92, 700
"""Position of the text on a page in points, the line spacing, characters of a line, and the lowest line."""


def truth(seed: int) -> dict[str, object]:
    """Return the terms of a seed's contract: the truth, which no desk sees."""
    return {name: value for name, (value, _) in thought(seed).items()}


def thought(seed: int) -> dict[str, tuple[object, str]]:
    """Generate the terms: for each clause its value, and the sentence that states it."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same contract
    parties, law = chance.sample(NAMES, 2), chance.choice(LAWS)
    way = {name: chance.randrange(len(ways)) for name, ways in WAYS.items()}
    renews = 0 if way["renewal"] == len(WAYS["renewal"]) - 1 else chance.choice((12, 18, 24))
    months, days, cap = chance.choice((12, 24, 36, 60)), chance.choice((30, 45, 60, 90)), 50_000 * chance.randint(2, 40)
    values = {"parties": parties, "term": months, "notice": days, "cap": cap, "law": law, "renewal": renews}
    return {name: (value, written(WAYS[name][way[name]], value)) for name, value in values.items()}


def written(way: str, value: object) -> str:
    """Return a sentence with its value."""
    if isinstance(value, int):
        return way.format(n=value, word=COUNTED.get(value, ""), dotted=f"{value:,}".replace(",", "."))
    return way.format(*(value if isinstance(value, list) else [value]))


def paragraphs(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the clauses in the order of this contract: heading and text. The parties come first."""
    chance, sentences = random.Random(f"order {seed}"), {name: told for name, (_, told) in thought(seed).items()}  # noqa: S311
    yield "Parties", sentences["parties"]
    body = dict(FILLERS)
    for name, head in HEADS.items():
        before, after = chance.sample(sorted(FILLERS), 2)
        body[head] = f"{FILLERS[before]} {sentences[name]} {FILLERS[after]}"
    heads = list(body)
    chance.shuffle(heads)
    yield from ((head, body[head]) for head in heads)


def write(path: Path, seed: int) -> None:
    """Write the contract of a seed. A clause that does not fit on a page begins the next one."""
    pages: list[list[pdf.Text]] = [[pdf.Text(LEFT, 50, "SUPPLY AGREEMENT", 14, bold=True)]]
    y = TOP
    for number, (head, text) in enumerate(paragraphs(seed), 1):
        lines = textwrap.wrap(text, WIDE, break_on_hyphens=False)
        if y + (len(lines) + 2) * LINE > LOWEST:
            pages.append([])
            y = TOP
        shown = [f"{number}. {head}", *lines]
        pages[-1] += [pdf.Text(LEFT, y + at * LINE, line, bold=at == 0) for at, line in enumerate(shown)]
        y += (len(shown) + 1) * LINE
    for at, page in enumerate(pages, 1):
        page.append(pdf.Text(LEFT, 800, f"Page {at} of {len(pages)}", 8))
    path.write_bytes(pdf.pages(pages))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
