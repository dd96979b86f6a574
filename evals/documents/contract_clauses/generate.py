"""Write five service contracts as PDF, and the brief that asks for their clauses."""

from __future__ import annotations

import json
import random
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

SUPPLIERS = ("Arden Cleaning", "Belmont Catering", "Corvin Security", "Dunmore Software", "Elstree Logistics")
LAWS = ("Ireland", "Austria", "Sweden", "Portugal", "Denmark", "Estonia", "Belgium")
YEARS = {2: "two", 3: "three", 4: "four", 5: "five"}
LINES_ON_PAGE, WIDTH = 44, 88
FILLER = (
    "The headings in this Agreement are for convenience only and do not affect its interpretation.",
    "Each party shall appoint a representative who is authorised to decide on matters of daily performance.",
    "The Supplier shall perform the services with the care that is customary in its trade.",
    "The Customer shall give the Supplier access to its premises during the agreed hours of service.",
    "Changes to the scope of the services require a written change order that both parties have signed.",
    "The Supplier remains responsible for the acts of its subcontractors as for its own.",
    "Neither party is liable for a delay that is caused by an event beyond its reasonable control.",
    "Confidential information may be disclosed only to those employees who need it for the performance.",
    "The Supplier shall keep records of the services and present them to the Customer at its request.",
    "If a provision of this Agreement is invalid, the remaining provisions stay in force.",
    "Personal data may be processed only on the documented instructions of the Customer.",
    "The Supplier shall report accidents on the premises of the Customer on the same working day.",
    "Tools and materials that the Customer provides remain its property and are returned on request.",
    "A failure to exercise a right under this Agreement does not mean that the right is waived.",
    "Notices are sent to the addresses on the cover page unless a party has named another address.",
    "The Supplier shall replace staff whose work the Customer rejects for a stated and objective reason.",
    "The parties review the quality of the services twice in each contract year.",
    "This Agreement replaces all earlier arrangements between the parties about its subject.",
)
FILLER_TITLES = ("Definitions", "Services", "Staff", "Records", "Confidentiality", "Data protection", "Force majeure")
BRIEF = """\
goal = \"\"\"
Read the five contracts in contracts/. For each contract find five clauses, and write clauses.csv with the columns
File, Clause, Value, Page, Quote: one row for each contract and clause, 25 rows.
- File: the file name, such as arden-cleaning.pdf.
- Clause: one of term, notice, cap, law, payment.
- Value: term is the initial term in months; notice is the period for termination for convenience in days; cap is the
  limit of the aggregate liability in EUR, in full and without separators; law is the country whose laws govern the
  contract; payment is the number of days in which the Customer pays an invoice.
- Page: the page of the PDF file on which the sentence stands, the first page of the file being 1.
- Quote: the sentence that states the value, word for word.
Where an amendment at the end of a file replaces a clause, give the value, page and sentence of the amendment.
\"\"\"
inputs = ["contracts"]
image = "office"
seconds = 1200
approve = "auto"

[[deliverables]]
path = "clauses.csv"
check = "csv"

[deliverables.expect]
columns = ["File", "Clause", "Value", "Page", "Quote"]
rows = 25
numeric = ["Page"]
"""


@dataclass
class Layout:
    """Pages of lines; a paragraph never crosses a page."""

    pages: list[list[str]] = field(default_factory=lambda: [[]])

    def add(self, paragraph: str) -> int:
        """Append a paragraph; return its page, the first one being 1."""
        lines = textwrap.wrap(paragraph, WIDTH)
        if len(self.pages[-1]) + len(lines) + 1 > LINES_ON_PAGE:
            self.pages.append([])
        self.pages[-1] += [*lines, ""]
        return len(self.pages)

    def start_page(self) -> None:
        """Continue on a new page."""
        self.pages.append([])


def write_contract(chance: random.Random, place: int, folder: Path) -> list[dict[str, object]]:
    """Write one contract; return its five clauses with page and sentence, and the wrong values of a careless reader."""
    supplier = SUPPLIERS[place]
    layout, name = Layout(), supplier.lower().replace(" ", "-") + ".pdf"
    sentences, values, cores = state_clauses(chance, place)
    cover = ("SERVICE AGREEMENT", f"between Harrow Museum Trust (the Customer) and {supplier} Ltd (the Supplier)")
    for line in (*[" "] * 6, *cover, f"Contract number SA-{chance.randint(1000, 9999)}", "Signed copy"):
        layout.add(line)
    layout.start_page()
    pages = {}
    order = [*sentences, *FILLER_TITLES]
    chance.shuffle(order)
    decoys = write_decoys(chance, place)
    for number, title in enumerate(order, 1):
        layout.add(f"{number}. {title.upper() if title in FILLER_TITLES else headline(title)}")
        body = chance.sample(FILLER, 6)
        if title in sentences:
            body.insert(chance.randint(1, 5), sentences[title])
        body += [decoys.pop()] if decoys else []
        paragraphs = [body[:3], body[3:5], body[5:]]
        for part, paragraph in enumerate(paragraphs, 1):
            page = layout.add(f"{number}.{part} " + " ".join(paragraph))
            if title in sentences and sentences[title] in paragraph:
                pages[title] = page
    old = dict(values)
    amended = {0: "notice", 1: "payment"}.get(place)
    if amended:
        layout.start_page()
        layout.add("AMENDMENT NO. 1")
        layout.add(f"The parties amend the Service Agreement with effect from {chance.randint(2, 28)} March 2025.")
        days = int(str(values[amended])) + 15
        values[amended], cores[amended] = days, f"{days} days"
        changed = {
            "notice": f"Either party may terminate this Agreement for convenience on {days} days' written notice.",
            "payment": f"The Customer shall pay each undisputed invoice within {days} days of its receipt.",
        }[amended]
        layout.add(f"The clause on {headline(amended).lower()} is replaced by the following sentence.")
        pages[amended] = layout.add(changed)
        sentences[amended] = changed
        layout.add("All other provisions of the Service Agreement remain unchanged.")
    draw(layout, folder / name)
    return [
        {
            "file": name, "clause": clause, "value": values[clause], "page": pages[clause], "core": cores[clause],
            "sentence": sentences[clause], "old": old[clause],
        }
        for clause in sentences
    ]  # fmt: skip


def state_clauses(chance: random.Random, place: int) -> tuple[dict[str, str], dict[str, object], dict[str, str]]:
    """Return sentences, values and the words that carry each value, by clause."""
    months, years = chance.choice((12, 18, 24, 30, 36)), chance.randint(2, 5)
    notice, payment = chance.choice((30, 60, 90, 120)), chance.choice((14, 21, 30))
    cap, law = chance.randint(3, 40) * 25_000, LAWS[(place + chance.randint(0, 2)) % len(LAWS)]
    term = f"This Agreement continues for an initial term of {months} months from the Effective Date."
    limit, core = f"shall not exceed EUR {cap:,}.", f"EUR {cap:,}"
    core_term = f"{months} months"
    if place in (2, 4):
        term = f"The initial term of this Agreement is {YEARS[years]} ({years}) years from the Effective Date."
        months, core_term = years * 12, f"({years}) years"
    if place == 3:
        limit, core = f"is limited to EUR {cap // 1000} thousand.", f"EUR {cap // 1000} thousand"
    sentences = {
        "term": term,
        "notice": f"Either party may terminate this Agreement for convenience by giving {notice} days' written notice.",
        "cap": f"The aggregate liability of either party in a contract year {limit}",
        "law": f"This Agreement is governed by the laws of {law}.",
        "payment": f"The Customer shall pay each undisputed invoice within {payment} days of receipt.",
    }
    values: dict[str, object] = {"term": months, "notice": notice, "cap": cap, "law": law, "payment": payment}
    cores = {"term": core_term, "notice": f"{notice} days", "cap": core, "law": law, "payment": f"{payment} days"}
    return sentences, values, cores


def write_decoys(chance: random.Random, place: int) -> list[str]:
    """Return sentences that are similar to the clauses, but irrelevant."""
    return [
        f"Travel expenses are reimbursed within {chance.choice((40, 45, 50))} days of receipt of the documents.",
        f"A party in material breach shall remedy it within {chance.choice((7, 10))} days of written notice.",
        f"The Supplier maintains insurance cover of not less than EUR {chance.randint(41, 80) * 25_000:,}.",
        f"Equipment that is leased from third parties remains subject to the laws of {LAWS[(place + 4) % 7]}.",
        "The term may be extended by 9 months if both parties agree in writing.",
    ]


def headline(clause: str) -> str:
    """Return the heading of a clause."""
    titles = {"term": "Duration", "notice": "Termination", "cap": "Liability", "law": "Applicable law"}
    return titles.get(clause, "Invoices and payment").upper()


def draw(layout: Layout, path: Path) -> None:
    """Draw the pages; the cover has no number, and the page after it is number 1."""
    canvas = Canvas(str(path), pagesize=(595, 842), invariant=1)
    for number, lines in enumerate(layout.pages):
        canvas.setFont("Helvetica", 10)
        for row, line in enumerate(lines):
            canvas.drawString(70, 770 - 15 * row, line)
        if number:
            canvas.drawString(280, 40, f"Page {number}")
        canvas.showPage()
    canvas.save()


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same contracts
    folder = Path("brief/contracts")
    folder.mkdir(parents=True)
    Path("hidden").mkdir()
    rows = [row for place in range(len(SUPPLIERS)) for row in write_contract(chance, place, folder)]
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
