"""Verifying workbooks: one, from opening a desk to the verdict, compared with a conversion; a hundred of one job."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from bench.book import Book

from hotdesk.brief.brief import Brief, Deliverable, JobBudget, RequiredCheck
from hotdesk.desk.seam import Spec, new_id
from hotdesk.host import Host
from hotdesk.job.desks import Desks
from hotdesk.job.record import papers
from hotdesk.job.record.log import JobLog
from hotdesk.job.verify import OFFICE, Candidate, DeliverableVerifier

ROWS, SMALL, MANY = 500, 50, 100
SECONDS = 900.0
VERIFIED = f"verify: a workbook of {ROWS} rows, from opening a clean desk to the verdict"
CONVERTED = "verify: one cold `soffice --convert-to pdf` of it, in an open desk"
RATE = f"verify: workbooks of {SMALL} rows a second, {MANY} of one job in one clean desk"
LARGE_RATE = f"verify: workbooks of {ROWS} rows a second, in one clean desk"
BUSY = f"verify: CPU seconds of one workbook of {SMALL} rows, desk and owner"
INSIDE = "verify: of them in the desk, one after another"
SPEC = Spec(image="office", sterile=True)
COLUMNS = ["Invoice", "Vendor", "Invoiced", "Ordered", "Difference"]
WRITE = """
import sys, xlsxwriter
rows = int(sys.argv[1])
book = xlsxwriter.Workbook(sys.argv[2])
data, total = book.add_worksheet("Data"), 0
red = book.add_format({"bg_color": "#FF9999"})
data.write_row(0, 0, ["Invoice", "Vendor", "Invoiced", "Ordered", "Difference"])
for row in range(rows):
    invoiced, ordered = 100 + row, 100 + row + (7 if row % 100 == 3 else 0)
    style, total = red if invoiced != ordered else None, total + invoiced - ordered
    for column, value in enumerate((f"I-{row:04}", "Vendor", invoiced, ordered)):
        data.write(row + 1, column, value, style)
    data.write_formula(row + 1, 4, f"=C{row + 2}-D{row + 2}", style, invoiced - ordered)
data.write_formula(rows + 1, 4, f"=SUM(E2:E{rows + 1})", None, total)
summary = book.add_worksheet("Summary")
summary.write(0, 0, "Total")
summary.write_formula(0, 1, f"=Data!E{rows + 2}", None, total)
book.close()
"""


def made_of(data: bytes, rows: int, count: int) -> list[Candidate]:
    """Return workbooks as a job passes them to verification."""
    columns = {"columns": COLUMNS, "rows": rows, "red_where": "Difference", "total": "Difference"}
    change = {"set": "Data!C2", "to": 5, "moves": ["Summary!B1"], "stays": ["Data!E3"]}
    wanted = RequiredCheck("xlsx", {**columns, "formulas": ["column Difference"], "mutate": [change]})
    return [Candidate(Deliverable(f"book-{place}.xlsx", "xlsx", (wanted,)), data) for place in range(count)]


async def written(host: Host, rows: int) -> bytes:
    """Have a desk write a workbook; return its bytes."""
    async with host.open_desk(Spec(image="office")) as desk:
        done = await desk.run(["python3", "-I", "-c", WRITE, str(rows), "book.xlsx"], timeout=60)
        if not done.ok:
            raise RuntimeError(f"no workbook was written: {done.stderr[-300:].decode(errors='replace')}")
        return await desk.read("book.xlsx")


@asynccontextmanager
async def job(host: Host) -> AsyncIterator[DeliverableVerifier]:
    """Yield the verifier of one job's files, with journal and papers."""
    id = new_id()
    await host.prepare()
    log = JobLog(id, host, papers.create(host.config.lib / "jobs", id), lambda *_: None, JobBudget(), SECONDS)
    desks = Desks(host, Brief("goal", (), host.config.lib, ""), id, log.note, SECONDS)
    async with AsyncExitStack() as stack:
        yield DeliverableVerifier(desks, log, stack)


async def verify(verifying: DeliverableVerifier, made: Sequence[Candidate]) -> None:
    """Verify workbooks, including the events about each."""
    for each in await verifying.verify_all(made):
        if not each.passed:
            raise RuntimeError(f"a good workbook failed: {each.objection}")


async def one(host: Host, book: Book, number: int, data: bytes) -> None:
    """Time a verification, and a conversion."""
    began = time.perf_counter()
    async with job(host) as verifying:
        await verify(verifying, made_of(data, ROWS, 1))
        book.note(VERIFIED, number, time.perf_counter() - began)
    async with host.open_desk(SPEC) as desk:
        await desk.write("book.xlsx", data)
        began = time.perf_counter()
        done = await desk.run(["soffice", "--headless", "--convert-to", "pdf", "book.xlsx"], timeout=100)
        book.note(CONVERTED, number, time.perf_counter() - began)
        if not done.ok or not (await desk.read("book.pdf")).startswith(b"%PDF"):
            raise RuntimeError("the workbook was not converted")


async def rate(host: Host, data: bytes, rows: int, count: int) -> tuple[float, float, float]:
    """Return a desk's workbooks per second, including its opening, and CPU seconds of each: in all, and inside."""
    began, busy = time.perf_counter(), time.process_time()
    async with job(host) as verifying:
        await verify(verifying, made_of(data, rows, count))
        took = time.perf_counter() - began
        inside = (await verifying.shared[OFFICE].desk.usage()).cpu
        used = inside + time.process_time() - busy
    return count / took, used / count, inside / count


async def measure(host: Host, book: Book, rounds: int, sizes: Sequence[int] = (MANY, MANY // 2)) -> None:
    """Measure everything; the first round only warms caches."""
    large, small = await written(host, ROWS), await written(host, SMALL)
    for number in range(-1, rounds):
        await one(host, book if number >= 0 else Book(), number, large)
    book.facts[RATE], book.facts[BUSY], book.facts[INSIDE] = await rate(host, small, SMALL, sizes[0])
    book.facts[LARGE_RATE], _, _ = await rate(host, large, ROWS, sizes[1])
