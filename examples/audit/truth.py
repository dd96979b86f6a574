"""The truth of a run: which invoices are wrong, and what every file was. It lies where no desk sees it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from examples.audit import paper
from examples.audit.invoices import Books, think_up

FILE = "truth.json"


@dataclass
class Truth:
    """What the judge knows."""

    seed: int
    count: int
    planted: dict[str, str]
    """Kinds of discrepancies, by file."""
    sha256: dict[str, str]
    """What each file was when it was made."""
    edited: dict[str, int] = field(default_factory=dict)
    """Totals that a person wrote into invoices since, in cents, by file."""

    @classmethod
    def of(cls, books: Books, folder: Path) -> Truth:
        """Write down what was planted, and what every file is."""
        planted = {f"invoice-{each.place:03}.pdf": each.kind for each in books.planted}
        return cls(books.seed, len(books.invoices), planted, hashes(folder))

    @classmethod
    def load(cls, out: Path) -> Truth:
        """Read it."""
        return cls(**json.loads((out / FILE).read_text()))

    def save(self, out: Path) -> None:
        """Keep it, for nobody else to read."""
        (out / FILE).touch(0o600)
        (out / FILE).write_text(json.dumps(asdict(self), indent=1))

    @property
    def books(self) -> Books:
        """Think the same up again."""
        return think_up(self.seed, self.count)

    def red(self) -> set[str]:
        """Give the files whose rows must be red."""
        totals = {each.file: each for each in self.books.invoices}
        changed = {file for file, cents in self.edited.items() if totals[file].total != cents}
        return set(self.planted) | changed

    def strange(self, folder: Path) -> set[str]:
        """Give the files that somebody put there: nobody here knows whether those are right."""
        return {name for name, sha256 in hashes(folder).items() if self.sha256.get(name) != sha256}

    def edit(self, folder: Path, place: int, cents: int) -> None:
        """Write another total into one invoice."""
        invoice = replace(self.books.invoices[place - 1], stated=cents)
        (folder / invoice.file).write_bytes(paper.paper(invoice, self.seed))
        self.edited[invoice.file] = cents
        self.sha256[invoice.file] = hashes(folder)[invoice.file]


def hashes(folder: Path) -> dict[str, str]:
    """Give what every invoice in a folder is."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.pdf"))}
