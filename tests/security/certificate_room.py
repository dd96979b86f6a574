"""Set-up for attacks on certificates: a workbook, a journal that records its verification, and a job that makes one."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brief.brief import Brief, Deliverable, RequiredCheck
from hotdesk.drive.journal import Journal
from hotdesk.drive.signing import Signer
from hotdesk.event import (
    Decided,
    Event,
    JobBegun,
    Opened,
    Pending,
    Planned,
    Thought,
    Verified,
    get_chain,
)
from hotdesk.job.local import LocalMachine
from hotdesk.job.record.receipt import Receipt
from hotdesk.linux import private_files
from hotdesk.walls import WallProof
from hotdesk.work import JobContext, work

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
BOOK = f"""<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="Stock" sheetId="1" r:id="rId1"/></sheets>
</workbook>"""
LINKS = f"""<Relationships xmlns="{PACKAGE}">
<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"""
ROOT = f"""<Relationships xmlns="{PACKAGE}">
<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>"""
EXPECT = {"columns": ["Thing", "Amount"], "rows": 2, "total": "Amount"}
ROWS = (("nuts", 5.0), ("bolts", 7.0))
NAME = "Stock.xlsx"
SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(b"not a secret: for certificates.."))
STRANGER = Signer(Ed25519PrivateKey.from_private_bytes(b"not a secret: somebody else's..."))
JOB, DESK = "i" + "a1b2" * 5, "i" + "c3d4" * 5
HELD = ("2 columns, 2 rows", "1 formula, recalculated")


def workbook(rows: Sequence[tuple[str, float]] = ROWS, total: float = 12.0) -> bytes:
    cells = [text("A1", "Thing") + text("B1", "Amount")]
    cells += [text(f"A{at}", thing) + f'<c r="B{at}"><v>{amount}</v></c>' for at, (thing, amount) in enumerate(rows, 2)]
    last = len(rows) + 1
    cells.append(text(f"A{last + 1}", "Total") + f'<c r="B{last + 1}"><f>SUM(B2:B{last})</f><v>{total}</v></c>')
    data = "".join(f'<row r="{at}">{each}</row>' for at, each in enumerate(cells, 1))
    sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{data}</sheetData></worksheet>'
    parts = {"_rels/.rels": ROOT, "xl/workbook.xml": BOOK, "xl/_rels/workbook.xml.rels": LINKS}
    parts["xl/worksheets/sheet1.xml"] = sheet
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, told in parts.items():
            file.writestr(zipfile.ZipInfo(name), told)
    return made.getvalue()


def text(place: str, value: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


FILE = workbook()
SHA256 = hashlib.sha256(FILE).hexdigest()


def passed(path: str = NAME, sha256: str = SHA256, check: str = "sheet", desk: str = DESK) -> Verified:
    return Verified(JOB, desk, path, sha256, check, "passed", HELD, "ab" * 32)


BEGUN: tuple[Event, ...] = (
    JobBegun(JOB, "Count the stock.", "cd" * 32, "recorded script 1a2b3c4d5e6f", "uid 0 pid 4711"),
    Planned(JOB, "ef" * 32, ("count",), "ab" * 32),
    Pending(JOB, "1a2b3c4d", "plan", "12" * 32, "ab" * 32, 1 << 50),
    Decided(JOB, "1a2b3c4d", "12" * 32, "approved", "uid 1000 pid 42"),
    Thought(JOB, "count", 1, "recorded script 1a2b3c4d5e6f", "ab" * 32, 0, 0, 0, 0, 5),
)
"""The events of a job up to the first verification."""


def claim(**other: Any) -> dict[str, Any]:
    check = {
        "beside": {},
        "check": "sheet",
        "desk": {"id": "", "network": False, "sterile": True, "wall": "container"},
        "expect": dict(EXPECT),
        "held": list(HELD),
        "image": {"digest": "34" * 32, "name": "base"},
        "looked_for": ["opens", "holds"],
        "not_checked": ["sheets after the first"],
        "pages": [{"height": 200, "sha256": "56" * 32, "size": 4711, "width": 100}],
        "tools": {"python": "3.13.1"},
        "values": {"rows": 2, "total": 12.0, "sheet": "Stock", "calculated": True, "chart": None},
    }
    told = {
        "brain": {"kind": "script"},
        "checks": [check],
        "file": {"name": NAME, "sha256": SHA256, "size": len(FILE)},
        "hotdesk": {"architecture": "aarch64", "version": "0.1.0"},
        "job": JOB,
    }
    return {**told, **other}


PROOF = WallProof("container", "host", True, "crun 1.14.1")
"""What the keeper proved about the desk."""
OPENED = Opened(DESK, "", (), (), "uid 0 pid 4711", "base", **asdict(PROOF))


def written(folder: Path, events: Iterable[Event], opened: Event | None = OPENED, by: str = "keeper") -> Journal:
    private_files.make_folder(folder)
    journal = Journal(folder / "journal.db", SIGNER)
    if opened is not None:
        journal.add(get_chain(opened), by, opened)
    for event in events:
        journal.add(get_chain(event), "owner", event)
    journal.commit()
    return journal


SCRIPT = """
import base64
from hotdesk.brain.models.scripted import step

async def count(hands):
    "Count."
    await hands.write({path!r}, base64.b64decode({data!r}))

PLAN = (step(count, makes=[{path!r}]),)
"""


def stock(folder: Path, *checks: RequiredCheck) -> Brief:
    return Brief("Count the stock.", (Deliverable(NAME, "xlsx", checks),), folder, "cd" * 32, wall="local", seconds=60)


async def made(machine: LocalMachine, job: Brief, data: bytes, order: JobContext | None = None) -> Receipt:
    script = SCRIPT.format(path=NAME, data=base64.b64encode(data).decode()).encode()
    model = ScriptedModel(script, job.folder / "brain.py")
    return await work(order or JobContext(machine, job, exact=True), ModelBrain(job, [model], [model]))
