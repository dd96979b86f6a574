"""The truth of a run: which invoices are wrong, and the digest of every file. No desk gets it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from examples.audit import paper
from examples.audit.invoices import Books, generate_books

FILE = "truth.json"


@dataclass
class Truth:
    """What the judge compares the workbook with."""

    seed: int
    count: int
    planted: dict[str, str]
    """The kind of discrepancy of each wrong invoice, by file."""
    sha256: dict[str, str]
    """The digest of each generated file."""
    edited: dict[str, int] = field(default_factory=dict)
    """Totals that a person wrote into invoices afterwards, in cents, by file."""

    @classmethod
    def create(cls, books: Books, folder: Path) -> Truth:
        """Return the truth about generated books and their files."""
        planted = {f"invoice-{each.place:03}.pdf": each.kind for each in books.planted}
        return cls(books.seed, len(books.invoices), planted, hash_invoices(folder))

    @classmethod
    def load(cls, out: Path) -> Truth:
        return cls(**json.loads((out / FILE).read_text()))

    def save(self, out: Path) -> None:
        """Write it to a file that only its owner can read."""
        (out / FILE).touch(0o600)
        (out / FILE).write_text(json.dumps(asdict(self), indent=1))

    @property
    def books(self) -> Books:
        """Generate the same books again."""
        return generate_books(self.seed, self.count)

    def list_red(self) -> set[str]:
        """List the files whose rows must be red."""
        totals = {each.file: each for each in self.books.invoices}
        changed = {file for file, cents in self.edited.items() if totals[file].total != cents}
        return set(self.planted) | changed

    def list_replaced(self, folder: Path) -> set[str]:
        """List files that were not generated here: whether they are right is unknown."""
        return {name for name, sha256 in hash_invoices(folder).items() if self.sha256.get(name) != sha256}

    def edit(self, folder: Path, place: int, cents: int) -> None:
        """Write another total into an invoice."""
        invoice = replace(self.books.invoices[place - 1], stated=cents)
        (folder / invoice.file).write_bytes(paper.write_pdf(invoice, self.seed))
        self.edited[invoice.file] = cents
        self.sha256[invoice.file] = hash_invoices(folder)[invoice.file]


def hash_invoices(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.pdf"))}
