"""Tests of a swarm at real desks: one desk for each item, killed and resumed, an example compared with the truth."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.desk.seam import new_id
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError
from hotdesk.event import Burnt, Decided, Event, ItemEnded, Opened, Pending
from hotdesk.host import Host
from hotdesk.job.people.wait import Card, decide
from hotdesk.swarm.brains import ScriptBrains
from hotdesk.swarm.listing import find_items
from hotdesk.swarm.run import SwarmContext, run_swarm
from hotdesk.work import JobContext
from tests.e2e.conftest import Hotdesk, environment
from tests.e2e.swarm_processes import BRIEF, SwarmProcess, source_path, write_brief
from tests.upstream import upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(280)]
EXAMPLE = Path(__file__).parents[2] / "examples/contracts"


@pytest.fixture
def swarm_command(hotdesk: Hotdesk) -> Hotdesk:
    return partial(hotdesk, **source_path())


def read_events(settings: Config, chain: str) -> list[Event]:
    return [row.read_event() for row in read(settings.lib / "keys" / FILE, chain)]


def test_a_recording_of_a_swarm_needs_a_model(tmp_path: Path, swarm_command: Hotdesk) -> None:
    brief = write_brief(tmp_path, 1)
    recording = tmp_path / "swarm.jsonl"
    done = swarm_command("swarm", str(brief), "--script", str(brief / "brain.py"), "--record", str(recording))
    assert (done.returncode, recording.exists()) == (125, False)
    assert b"--record needs --model" in done.stderr


def test_every_item_has_a_desk_of_its_own_which_a_keeper_opened_and_burnt(
    tmp_path: Path, swarm_command: Hotdesk, settings: Config
) -> None:
    brief = write_brief(tmp_path, 6)
    out = brief / "out"
    done = swarm_command(
        "swarm", str(brief), "--script", str(brief / "brain.py"), "--out", str(out), "--json", timeout=200
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    receipt = lines[-1]["data"]
    assert (receipt["done"], receipt["quarantined"]) == (6, 0)
    records = [event for event in read_events(settings, receipt["job"]) if isinstance(event, ItemEnded)]
    desks, clean = {each.desk for each in records}, {each.clean for each in records}
    assert len(desks) == 6
    assert not desks & clean
    for desk in desks | clean:
        names = {type(event) for event in read_events(settings, desk)}
        assert names >= {Opened, Burnt}
    assert json.loads((out / "total.json").read_bytes()) == {"total": 30}
    with zipfile.ZipFile(out / "results.zip") as archive:
        assert len(archive.namelist()) == 6
        archive.extract("line-000002.json", out)
    item = ("verify", str(out / "line-000002.json"), str(out / "swarm-certificate.json"), "--item", "line-000002")
    proof = out / "proof"
    assert swarm_command(*item, "--write-proof", str(proof)).returncode == 0
    (out / "records.jsonl").unlink()
    verified = swarm_command(*item, "--proof", str(proof))
    assert verified.returncode == 0
    assert b"VERIFIED" in verified.stdout
    assert len(proof.read_bytes()) < 2000
    (out / "line-000002.json").write_text("{}")
    assert swarm_command(*item, "--proof", str(proof)).returncode == 1


def write_workbook(path: Path, rows: list[list[str]], *, dtd: str = "") -> None:
    cells = "".join(
        f'<row r="{row}">'
        + "".join(f'<c r="{"ABC"[at]}{row}" t="inlineStr"><is><t>{text}</t></is></c>' for at, text in enumerate(cells))
        + "</row>"
        for row, cells in enumerate(rows, 1)
    )
    main, office = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org"
    kinds = f"{office}/officeDocument/2006/relationships"
    relations = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">%s</Relationships>'
    link = '<Relationship Id="r1" Type="%s/%s" Target="%s"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_rels/.rels", relations % (link % (kinds, "officeDocument", "xl/workbook.xml")))
        file.writestr("xl/_rels/workbook.xml.rels", relations % (link % (kinds, "worksheet", "worksheets/sheet1.xml")))
        sheet = f'<sheet name="Rows" sheetId="1" r:id="r1" xmlns:r="{kinds}"/>'
        file.writestr("xl/workbook.xml", f'<workbook xmlns="{main}"><sheets>{sheet}</sheets></workbook>')
        file.writestr(
            "xl/worksheets/sheet1.xml",
            f'{dtd}<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
        )


BOMB = (
    "<!DOCTYPE x ["
    + "".join(f'<!ENTITY e{at} "{"ha" * 10 if not at else f"&e{at - 1};" * 10}">' for at in range(12))
    + "]>"
)


async def test_rows_of_a_workbook_are_items_and_a_hostile_one_is_refused(settings: Config, tmp_path: Path) -> None:
    write_workbook(tmp_path / "rows.xlsx", [["number", "name"], ["A/1", "first"], ["A/2", "second"]])
    write_workbook(tmp_path / "bomb.xlsx", [["number"], ["&e11;"]], dtd=BOMB)
    (tmp_path / "none.xlsx").write_bytes(b"PK no workbook")
    each = 'over = "rows.xlsx"\nkey = "number"'
    brief = parse_job(BRIEF.replace('over = "words.txt"', each).encode(), tmp_path, scope_of)
    assert brief.each is not None
    async with Host(settings, control=False) as host:
        items = await find_items(host, brief, new_id())
        assert [(item.key, item.name) for item in items] == [("A_1", "item.json"), ("A_2", "item.json")]
        assert json.loads(items[1].data) == {"number": "A/2", "name": "second"}
        for name in ("bomb.xlsx", "none.xlsx"):
            hostile = replace(brief, each=replace(brief.each, over=name))
            with pytest.raises(BriefError, match=f"{name} (cannot be read|has no rows)"):
                await find_items(host, hostile, new_id())
    assert not list((settings.run / "desks").glob("i*"))


ASKING = """
import json
from hotdesk.brain.models.scripted import step

FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).status)"

async def fetch(hands):
    "Fetch one word."
    word = (await hands.read("item.txt")).decode().strip()
    path = "admin" if word == "odd" else f"words/{hands.item}"
    done = await hands.run(["python3", "-c", FETCH, f"https://erp.example.test/{path}"], timeout=90)
    if not done.ok:
        raise ValueError("it was refused")
    await hands.write(f"{hands.item}.json", json.dumps({"letters": int(done.stdout)}).encode())

PLAN = (step(fetch, files=["item.txt"], makes=["{item}.json"]),)
"""


async def test_the_same_request_of_many_items_is_one_card_and_an_odd_one_another(
    settings: Config, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("one\ntwo\nodd\nthree\n")
    text = BRIEF[: BRIEF.index("[reduce]")].replace('over = "words.txt"', 'over = "words.txt"\nquarantine = 0.5')
    text = 'egress = ["ask GET https://erp.example.test/**"]\n' + text
    brief = parse_job(text.encode(), tmp_path, scope_of)
    cards: list[str] = []

    async def answer(pending: Pending, card: Card) -> Decided:
        cards.append(card.subject)
        word = "approved" if json.loads(card.subject)["path"] == "/words/{item}" else "refused"
        return decide(pending, card, order.log.papers, word, "a person")  # type: ignore[union-attr]

    with upstream(tmp_path, "erp.example.test") as server:
        here = replace(settings, ca=str(server.ca), names={"erp.example.test": server.address})
        Drive(here.lib / "drive")
        async with Host(here, control=False) as host:
            order = JobContext(host, brief, prompt=answer, exact=True)
            brains = ScriptBrains(ASKING.encode(), tmp_path / "script.py")
            receipt = await run_swarm(SwarmContext(order, brains, doors=host.doors))
        paths = sorted({each.path for each in server.seen})
    assert (receipt.outcome, receipt.done, receipt.quarantined) == ("done", 3, 1), receipt
    assert sorted(json.loads(card)["path"] for card in cards) == ["/admin", "/words/{item}"]
    assert paths == [f"/words/line-00000{number}" for number in (1, 2, 4)]


@pytest.mark.long
@pytest.mark.parametrize(("share", "victim"), [(0.2, "owner"), (0.5, "keeper"), (0.8, "owner")])
def test_a_swarm_that_was_killed_continues_and_repeats_no_item(
    share: float, victim: str, tmp_path: Path, swarm_command: Hotdesk, settings: Config
) -> None:
    count = 120
    swarm = SwarmProcess(settings, write_brief(tmp_path, count))
    swarm.run((victim, int(share * count)))
    ends = list(swarm.ends)
    assert swarm.run() == 0, (tmp_path / "said").read_text()[-2000:]
    records = swarm.list_records()
    assert len(records) == len({each.item for each in records}) == count
    assert {each.item for each in records[: len(ends)]} == set(ends)
    assert all(each.outcome == "done" for each in records)
    assert json.loads((swarm.out / "total.json").read_bytes()) == {"total": sum(len(f"word{n}") for n in range(count))}
    assert swarm_command("journal", "verify").returncode == 0


@pytest.mark.long
def test_the_register_of_generated_contracts_matches_the_truth(settings: Config, tmp_path: Path) -> None:
    argv = [sys.executable, str(EXAMPLE / "run.py"), "--count", "60", "--seed", str(time.time_ns() % 1000)]
    env = {**environment(settings), **source_path()}
    done = subprocess.run([*argv, "--out", str(tmp_path)], env=env, capture_output=True, timeout=270, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"the register is right" in done.stderr
