"""A worker that brings a model up to date: it fetches, parses, errs on a footnote, mends that. It runs outside."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

HERE = Path(__file__).parent
SITE = "https://filings.example.test"
CURL = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "60"]
OFFICE = ["soffice", "--headless", "--norestore", "--convert-to"]
PARSED = r"""    found = re.fullmatch(r"(\()?(\d{1,3}(?:,\d{3})*)(?(1)\))", text)
    if found is None:
        raise ValueError(f"{text!r} is no amount")
    value = int(found[2].replace(",", ""))
    return -value if found[1] else value, ""
"""
MENDED = r"""    found = re.fullmatch(r"(\()?(\d{1,3}(?:,\d{3})*)(?(1)\))(?:\((\d)\))?", text)
    if found is None:
        raise ValueError(f"{text!r} is no amount")
    value = int(found[2].replace(",", ""))
    return -value if found[1] else value, found[3] or ""
"""


async def fetch(hands: Hands) -> Done:
    """Fetch the company's latest filing from the register."""
    latest = await hands.run([*CURL, f"{SITE}/latest"], timeout=90)
    if not latest.ok:
        return latest
    return await hands.run([*CURL, "--output", "filing.pdf", f"{SITE}/filings/{latest.text.strip()}"], timeout=90)


async def parse(hands: Hands) -> Done:
    """Pull the tables out of the filing; fix the parser where a footnote stands behind an amount."""
    await hands.write("parse.py", (HERE / "parse.py").read_bytes())
    done = await hands.run(["python3", "parse.py"], timeout=60)
    if "is no amount" in last_line(done):
        hands.say(f"{last_line(done)}. That is an amount with a footnote behind it; the parser shall keep both apart.")
        mended = await hands.use("file_replace", path="parse.py", old=PARSED, new=MENDED)
        if not mended.ok:
            return Done(1, stderr=mended.text.encode())
        done = await hands.run(["python3", "parse.py"], timeout=60)
    return done


async def reconcile(hands: Hands) -> Done:
    """Compare last quarter in the model with what the filing now says of it."""
    await hands.write("reconcile.py", (HERE / "reconcile.py").read_bytes())
    return await hands.run(["python3", "reconcile.py"], timeout=60)


async def update(hands: Hands) -> Done:
    """Fill the workbook in where it waits, have it recalculated, and put the results in; all else stays."""
    await hands.write("update.py", (HERE / "update.py").read_bytes())
    done = Done(0)
    for argv in (
        ["python3", "update.py", "fill"],
        [*OFFICE, "xlsx", "--outdir", "recalculated", "filled.xlsx"],
        ["python3", "update.py", "finish"],
    ):
        done = await hands.run(argv, timeout=90)
        if not done.ok:
            break
    return done


async def export(hands: Hands) -> Done:
    """Export the workbook as PDF, and look that it says what the filing says."""
    done = await hands.run([*OFFICE, "pdf", "--outdir", "exported", "Model.xlsx"], timeout=90)
    if not done.ok:
        return done
    said = await hands.run(["pdftotext", "-layout", "exported/Model.pdf", "-"], timeout=60)
    figures = (await hands.read("figures.csv")).decode()
    amounts = [line.split(",")[2] for line in figures.splitlines() if line.startswith("Net income,")]
    if f"{abs(int(amounts[0])):,}" not in said.text or "Err:" in said.text or "#" in said.text:
        return Done(1, stderr=b"the export does not show the net income that was filed, or it shows errors")
    return await hands.run(["mv", "exported/Model.pdf", "Filing_Summary.pdf"])


READ = ["figures.csv", "footnotes.json"]
PLAN = (
    step(fetch, makes=["filing.pdf"]),
    step(parse, hosts=[], files=["filing.pdf"], makes=READ),
    step(reconcile, hosts=[], files=["model.xlsx", *READ], makes=["reconciliation.csv"]),
    step(update, hosts=[], files=["model.xlsx", "figures.csv", "reconciliation.csv"], makes=["Model.xlsx"]),
    step(export, hosts=[], files=["Model.xlsx", "figures.csv"], makes=["Filing_Summary.pdf"]),
)


def last_line(done: Done) -> str:
    """Give the last line a program said."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
