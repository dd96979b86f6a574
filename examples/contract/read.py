"""Reads a contract at the worker's desk: finds six clauses, each with the page and the sentence.

python3 read.py          writes clauses.json, from contract.pdf
python3 read.py short    the same with quotes cut short, which are then on no page
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HEAD = re.compile(r"^ *\d+\. [A-Z][A-Za-z ]*$", re.MULTILINE)
NUMBER = r"(?:[a-z-]+ \()?(\d[\d.,]*\d|\d)\)?"
SHAPES = {
    "parties": (
        r'This Agreement is made between (.+?) \("the Supplier"\) and (.+?) \("the Customer"\)\.',
        r"([^.\n]+?), hereinafter the Supplier, and (.+?), hereinafter the Customer, agree as follows\.",
        r'BETWEEN: \(1\) (.+?) \(the "Supplier"\); and \(2\) (.+?) \(the "Customer"\)\.',
    ),
    "term": (
        rf"This Agreement remains in force for {NUMBER} months from the Effective Date\.",
        rf"The initial term is {NUMBER} months and begins on the Effective Date\.",
        rf"It takes effect on the Effective Date and, unless ended earlier, expires {NUMBER} months thereafter\.",
    ),
    "notice": (
        rf"Either party may terminate [^.]* not less than {NUMBER} days' written notice\.",
        rf"Termination for convenience requires [^.]* at least {NUMBER} days\.",
        rf"[^.\n]* may each end it at any time with {NUMBER} days' notice, given in text form\.",
    ),
    "cap": (
        rf"The aggregate liability [^.]* shall not exceed EUR {NUMBER}\.",
        rf"In no event is a party liable for more than {NUMBER} euros in total\.",
        rf"Liability is limited, [^.]* to EUR {NUMBER} in the aggregate\.",
    ),
    "law": (
        r"This Agreement is governed by the laws of ([^.]+)\.",
        r"The law of ([^.]+?) applies, to the exclusion of its rules on conflicts of law\.",
        r"It shall be construed in accordance with the law of ([^.]+)\.",
    ),
    "renewal": (
        rf"At the end of each term it is renewed automatically for a further {NUMBER} months\.",
        rf"Unless notice is given, it renews by itself for successive periods of {NUMBER} months each\.",
        r"It does not renew: once the term has ended, a new agreement is needed\.",
    ),
}
"""The wordings of each clause."""


def main() -> None:
    """Write the clauses; fail if one is missing, or found twice."""
    found = [each for page, text in enumerate(pages("contract.pdf"), 1) for each in clauses(page, text)]
    if sorted(str(each["clause"]) for each in found) != sorted(SHAPES):
        sys.exit(f"found {[each['clause'] for each in found]}")
    for each in found if sys.argv[1:] == ["short"] else ():
        each["quote"] = " ".join(str(each["quote"]).split()[:8]) + " ..."
    Path("clauses.json").write_text(json.dumps({"contract": "contract.pdf", "clauses": found}, indent=1))


def pages(path: str) -> list[str]:
    """Return the text of each page: a clause is one line, and its heading another."""
    done = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, check=True)
    texts = [HEAD.split(page) for page in done.stdout.decode().split("\f")[:-1]]
    return ["\n".join(" ".join(clause.split()) for clause in text) for text in texts]


def clauses(page: int, text: str) -> Iterator[dict[str, object]]:
    """Yield the clauses on a page."""
    for name, shapes in SHAPES.items():
        for match in (match for shape in shapes for match in re.finditer(shape, text)):
            quote = match[0].strip()
            yield {"clause": name, "value": value(name, match.groups()), "page": page, "quote": quote}


def value(name: str, told: tuple[str, ...]) -> object:
    """Return the value of a clause: a number, words, or two names; 0 months for no renewal."""
    if name == "parties":
        return list(told)
    if name == "law":
        return told[0]
    return int(re.sub(r"[.,]", "", told[0])) if told else 0


if __name__ == "__main__":
    main()
