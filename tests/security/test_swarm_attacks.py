"""Attacks by a swarm's items on each other and on its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brain.adversaries.names import find_adversary
from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import LanguageModel
from hotdesk.brief import parse_rule, parse_scope, scope_json
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.keep import Drive
from hotdesk.drive.signing import load_signer
from hotdesk.drive.swarm_certificate import ItemProof, prove
from hotdesk.drive.swarm_certificate import read as read_certificate
from hotdesk.errors import BriefError
from hotdesk.event import (
    Amended,
    Certified,
    Event,
    Exchange,
    ItemEnded,
    JobBegun,
    Opened,
    Planned,
    ReduceBegun,
    Reduced,
    SwarmBegun,
    SwarmCertified,
)
from hotdesk.host import Host
from hotdesk.keys.certify_swarm import certify_swarm
from hotdesk.keys.process import HEARD
from hotdesk.swarm.brains import ScriptBrains
from hotdesk.swarm.fill import fill_scope
from hotdesk.swarm.items import MAX_ITEMS, Item, add_items, list_items
from hotdesk.swarm.receipt import SwarmReceipt
from hotdesk.swarm.run import SwarmContext, run_swarm
from hotdesk.swarm.workbook import parse_rows
from hotdesk.work import JobContext
from tests.security.guards import Removal, falls_without, no_guard
from tests.swarm_room import SCRIPT, SwarmRoom
from tests.upstream import upstream

pytestmark = pytest.mark.timeout(200)
SWARM, REPORT = "i" + "a" * 20, "i" + "r" * 20
WALL: dict[str, Any] = {
    "wall": "container",
    "kernel": "host",
    "is_boundary": False,
    "version": "crun 1",
    "platform": "",
}
HEX = "ab" * 32


def desk(number: int) -> str:
    return f"i{number:020}"


def record(index: int, **changes: object) -> ItemEnded:
    ended = ItemEnded(
        SWARM, f"c-{index}", index, HEX, "done", desk(index), desk(900), (f"c-{index}.json",), (HEX,), (10,), ("json",)
    )
    return replace(ended, **changes)  # type: ignore[arg-type]


def opened(name: str, wall: dict[str, Any]) -> Opened:
    return Opened(name, "", (), (), "uid 0", "base", **wall)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "keys").mkdir(mode=0o700)
    with closing(Journal(tmp_path / "keys" / FILE, load_signer(tmp_path / "keys"))) as journal:
        yield journal


def write(
    journal: Journal, records: list[ItemEnded], *more: Event, items: int | None = None, wall: dict[str, Any] = WALL
) -> None:
    count = len(records) if items is None else items
    journal.add(SWARM, "owner", JobBegun(SWARM, "x", HEX, "written script"))
    journal.add(SWARM, "owner", Planned(SWARM, HEX, ("read",), HEX))
    for event in (SwarmBegun(SWARM, count, HEX, HEX), *records, *more):
        journal.add(SWARM, "owner", event)
    for name in {each.desk for each in records} | {each.clean for each in records}:
        if name:
            journal.add(name, "keeper", opened(name, wall))
    journal.commit()


@no_guard("nothing is attacked: it shows that the swarms below fail by what is wrong with them")
def test_a_correct_swarm_is_certified(journal: Journal) -> None:
    write(journal, [record(0), record(1), record(2, outcome="quarantined", clean="", digests=(), checks=())])
    claim, _ = read_certificate(certify_swarm(journal, SWARM))
    assert claim["items"]["done"] == 2
    assert claim["desks"] == {"clean": 1, "shared_by_at_most": 2, "walls": ["container"], "working": 3}


SPOILT = {
    "a shared desk": [record(0), record(1, desk=desk(0))],
    "a clean desk that was worked at": [record(0), record(1, clean=desk(0))],
    "a crowded clean desk": [record(number) for number in range(101)],
    "no desk": [record(0, desk="")],
    "no check": [record(0, checks=())],
    "an item twice": [record(0), record(0, item="c-1")],
}


@falls_without(
    "a desk for each item",
    Removal("keys/certify_swarm.py", 'if count > 1), ""):\n', 'if count > 99), ""):\n'),
    cases="a shared desk",
)
@falls_without(
    "clean desks apart from working desks",
    Removal("keys/certify_swarm.py", "    if clean.keys() & working.keys():\n", "    if not clean:\n"),
    cases="a clean desk that was worked at",
)
@falls_without(
    "few items in a clean desk",
    Removal("keys/certify_swarm.py", 'if count > MOST_SHARED), ""):\n', 'if count > 9999), ""):\n'),
    cases="a crowded clean desk",
)
@falls_without(
    "complete records of items",
    Removal(
        "keys/certify_swarm.py",
        "    if any(not each.desk or not each.clean or not each.checks or not each.digests for each in done):\n",
        "    if not done:\n",
    ),
    cases="no desk | no check",
)
@falls_without(
    "a record of every item",
    Removal(
        "keys/certify_swarm.py",
        "    if sorted(story.items) != list(range(story.begun.items)):\n",
        "    if story.begun.items < 0:\n",
    ),
    Removal("keys/certify_swarm.py", "for at in range(story.begun.items)]", "for at in sorted(story.items)]"),
    cases="an item twice",
)
@pytest.mark.parametrize("case", SPOILT)
def test_a_swarm_whose_items_were_not_isolated_is_not_certified(case: str, journal: Journal) -> None:
    write(journal, SPOILT[case])
    with pytest.raises(BriefError, match="gets no certificate"):
        certify_swarm(journal, SWARM)


@falls_without(
    "a proven wall around clean desks of a swarm",
    Removal(
        "keys/certify_swarm.py",
        "        if proof is None:\n",
        "        if proof is None and (proof := WallProof('none', 'host', False, '', '')) is None:\n",
    ),
)
def test_a_swarm_without_proof_of_its_clean_desks_is_not_certified(journal: Journal) -> None:
    write(journal, [record(0, clean="")], record(0))
    with pytest.raises(BriefError, match="the keeper did not verify the wall"):
        certify_swarm(journal, SWARM)


@falls_without(
    "one item in a clean desk whose programs the host does not count",
    Removal(
        "keys/certify_swarm.py", 'if count > 1 and proof.kernel != "host":', 'if count > 1 and proof.kernel == "":'
    ),
)
@pytest.mark.parametrize(("wall", "kernel"), [("gvisor", "sentry"), ("microvm", "own")])
def test_clean_desks_whose_programs_are_not_counted_check_one_item(wall: str, kernel: str, journal: Journal) -> None:
    proven = {**WALL, "wall": wall, "kernel": kernel, "is_boundary": True}
    write(journal, [record(0), record(1)], wall=proven)
    with pytest.raises(BriefError, match=f"checked 2 items; behind {wall} it may check one"):
        certify_swarm(journal, SWARM)


@no_guard("nothing is attacked: it shows that the swarm above fails by its shared clean desk")
def test_a_swarm_behind_gvisor_with_a_clean_desk_for_each_item_is_certified(journal: Journal) -> None:
    proven = {**WALL, "wall": "gvisor", "kernel": "sentry", "is_boundary": True}
    write(journal, [record(0), record(1, clean=desk(901))], wall=proven)
    claim, _ = read_certificate(certify_swarm(journal, SWARM))
    assert claim["desks"] == {"clean": 2, "shared_by_at_most": 1, "walls": ["gvisor"], "working": 2}


@falls_without(
    "a certified report of a swarm",
    Removal("keys/certify_swarm.py", "    if story.reduced is not None:\n", "    if story.begun is None:\n"),
)
def test_an_uncertified_report_is_in_no_swarm_certificate(journal: Journal) -> None:
    journal.add(REPORT, "keys", Certified(REPORT, "register.xlsx", "cd" * 32, HEX))
    write(journal, [record(0)], ReduceBegun(SWARM, REPORT, HEX), Reduced(SWARM, REPORT, ("register.xlsx",), (HEX,)))
    with pytest.raises(BriefError, match="has no certificate of its own"):
        certify_swarm(journal, SWARM)


@falls_without(
    "who says that a swarm was certified",
    Removal("keys/process.py", " if kind is not SwarmCertified)", ")"),
)
def test_an_owner_cannot_record_that_its_swarm_was_certified() -> None:
    assert SwarmCertified not in HEARD["owner"]


FORGED = {
    "another place": lambda proof: replace(proof, index=1),
    "another count": lambda proof: replace(proof, count=3),
    "another record": lambda proof: replace(proof, record=replace(proof.record, digests=("cd" * 32,))),
    "no siblings": lambda proof: replace(proof, siblings=()),
}


@falls_without(
    "an item's place under the root",
    Removal("drive/merkle.py", "    return last == 0 and found == root\n", "    return True\n"),
    Removal("drive/merkle.py", "        if last == 0:\n", "        if last < 0:\n"),
)
@pytest.mark.parametrize("case", FORGED)
def test_no_forged_proof_leads_to_the_root(case: str, journal: Journal) -> None:
    records = [record(number) for number in range(5)]
    write(journal, records)
    claim, _ = read_certificate(certify_swarm(journal, SWARM))
    proof = prove(records, 0)
    assert proof.leads_to(claim["items"]["root"])
    forged: ItemProof = FORGED[case](proof)
    assert not forged.leads_to(claim["items"]["root"])


HOSTILE_NAMES = ("*", "..", "a?x=*", "a/../b", "{item}", "%2e%2e", "a\nb", "-rf", "~", "a@2")


@falls_without(
    "items' names in rules",
    Removal(
        "swarm/items.py",
        '    return _UNSAFE.sub("_", text).strip("._-")[:_MAX_KEY_CHARS] or STEM\n',
        "    return text\n",
    ),
)
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_the_name_of_a_row_never_widens_a_rule(name: str, tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        file.write(f"id,x\n{json.dumps(name) if chr(10) in name else name},1\n")
    brief = parse_job(
        b'goal = "x"\ndeliverables = [{path = "{item}.json"}]\n[each]\nover = "rows.csv"\nkey = "id"\n',
        tmp_path,
        scope_of,
    )
    (item,) = list_items(brief)
    assert set(item.key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert item.key[0].isalnum()
    scope = scope_of(["GET https://erp.example.test/contracts/{item}?"], [], {})
    (rule,) = fill_scope(scope, item.key).rules
    assert parse_scope(json.loads(scope_json(fill_scope(scope, item.key)))).rules == (rule,)
    assert rule == replace(parse_rule("GET https://erp.example.test/contracts/x?"), path=f"/contracts/{item.key}")


@falls_without(
    "items as they were approved",
    Removal(
        "swarm/items.py", "        if hashlib.sha256(data).hexdigest() != self.sha256:\n", "        if not data:\n"
    ),
)
async def test_an_item_that_changes_after_approval_is_not_processed(tmp_path: Path) -> None:
    room = SwarmRoom(tmp_path, ["one"])
    for name in ("a", "b"):
        (tmp_path / f"{name}.doc").write_text(name)
    script = SCRIPT.replace("item.txt", "item.doc")
    brief = 'over = "*.doc"'

    def change(event: Event) -> None:
        if isinstance(event, SwarmBegun):
            (tmp_path / "a.doc").write_text("poisoned")

    receipt = await replace_over(room, brief, script).carry_out(change)
    ended = {event.item: event for event in room.events if isinstance(event, ItemEnded)}
    assert (receipt.outcome, ended["a"].cause, ended["b"].outcome) == ("paused", "input", "done")


def replace_over(room: SwarmRoom, over: str, script: str) -> SwarmRoom:
    room.over, room.script = over, script
    return room


AMENDING = """
async def add(hands):
    "Add up, and ask for more than there is."
    answer = await hands.amend(reason="an item says so", hosts=["GET https://erp.example.test/orders/1"])
    await hands.write("total.json", json.dumps({"total": int(answer.ok)}).encode())
"""


@falls_without(
    "a report that reaches nothing",
    Removal("swarm/reduce.py", "        scope=CLOSED,\n", "        scope=brief.scope,\n"),
    Removal("swarm/reduce.py", "        frozen=True,\n", ""),
)
async def test_no_poisoned_item_widens_what_the_report_may_do(tmp_path: Path) -> None:
    begin, end = SCRIPT.index("async def add"), SCRIPT.index("PLAN =")
    script = SCRIPT[:begin] + AMENDING + SCRIPT[end:]
    room = SwarmRoom(tmp_path, ["one"], top='egress = ["GET https://erp.example.test/orders/*"]', script=script)
    receipt = await room.carry_out()
    assert receipt.outcome == "done", receipt.why
    events = [row.read_event() for row in read(room.settings.lib / "keys" / FILE, receipt.report)]
    assert not [event for event in events if isinstance(event, Amended)]


LOOKING = """
async def count(hands):
    "Look for every other item, everywhere."
    places = "/home /tmp /run /etc /var/tmp /dev/shm /proc/*/environ /proc/*/cmdline"
    look = f"grep -rhaos 'marker-[a-z]*' {places} | sort -u"
    found = await hands.run(["sh", "-c", look], timeout=60)
    markers = sorted({line for line in found.stdout.decode().split() if line != "marker-"})
    await hands.write(f"{hands.item}.json", json.dumps({"letters": len(markers), "markers": markers}).encode())
"""


@pytest.mark.container
@falls_without(
    "an item alone at its desk",
    Removal(
        "swarm/worker.py",
        "        await main.write(item.name, data)\n",
        '        await main.write(item.name, data)\n        await desks.bring_input(main, "words.txt", "words.txt")\n',
    ),
)
async def test_a_compromised_worker_finds_no_other_item(settings: Config, tmp_path: Path) -> None:
    words = ["marker-alpha", "marker-beta", "marker-gamma"]
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words))
    begin, end = SCRIPT.index("async def count"), SCRIPT.index("async def add")
    script = SCRIPT[:begin] + LOOKING + SCRIPT[end:]
    text = (
        'goal = "Look at {item}."\ndeliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]\n'
    )
    text += '[each]\nover = "words.txt"\n'
    brief = parse_job(text.encode(), tmp_path, scope_of)
    Drive(settings.lib / "drive")
    found: dict[str, list[str]] = {}
    async with Host(settings, control=False) as host:
        order = JobContext(host, brief, exact=True)
        receipt = await run_swarm(SwarmContext(order, ScriptBrains(script.encode(), tmp_path / "script.py")))
        assert (receipt.outcome, receipt.done) == ("done", 3), receipt
        assert order.log is not None
        for row in read(order.journal, order.id):
            if isinstance(event := row.read_event(), ItemEnded):
                found[event.item] = json.loads(order.log.papers.read(event.files[0]))["markers"]
    assert found == {f"line-00000{number}": [word] for number, word in enumerate(words, 1)}


REACHING = """
import json
from hotdesk.brain.models.scripted import step

FETCH = '''
import sys, urllib.error, urllib.request
for path in sys.argv[1:]:
    try:
        print(path, urllib.request.urlopen("https://erp.example.test/" + path, timeout=20).status)
    except (OSError, urllib.error.URLError):
        print(path, 0)
'''

async def reach(hands):
    "Fetch every item's contract, also under names that a reader could take for another's."
    mine = hands.item
    paths = [f"contracts/line-00000{number}" for number in (1, 2, 3)]
    paths += [f"contracts/{mine}/../line-000002", f"contracts/{mine}%2f..%2fline-000002", "contracts/*", "contracts/"]
    done = await hands.run(["python3", "-c", FETCH, *paths], timeout=120)
    await hands.write(f"{mine}.json", json.dumps({"letters": 1, "found": done.stdout.decode()}).encode())

PLAN = (step(reach, files=["item.txt"], makes=["{item}.json"]),)
"""
RULE = 'egress = ["GET https://erp.example.test/contracts/{item}"]\n'
ITEM_BRIEF = (
    'goal = "Fetch {item}."\ndeliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]\n'
    '[each]\nover = "words.txt"\nattempts = 1\nquarantine = 1.0\n'
)


async def carry_out_behind_door(
    settings: Config, folder: Path, script: str, turn: Callable[[ScriptedModel], LanguageModel] | None = None
) -> tuple[SwarmReceipt, list[ItemEnded], list[tuple[str, str, str]], set[str]]:
    """Carry out a swarm of three items behind a door that knows the ERP and a thief's host.

    Return the outcome, the items' records, what the door admitted (item, host and path), and which hosts were reached.
    """
    (folder / "words.txt").write_text("one\ntwo\nthree\n")
    brief = parse_job((RULE + ITEM_BRIEF).encode(), folder, scope_of)
    with upstream(folder, "erp.example.test", "collect.example.test") as server:
        names = dict.fromkeys(("erp.example.test", "collect.example.test"), server.address)
        here = replace(settings, ca=str(server.ca), names=names)
        Drive(here.lib / "drive")
        async with Host(here, control=False) as host:
            order = JobContext(host, brief, exact=True)
            brains = ScriptBrains(script.encode(), folder / "script.py", turn)
            receipt = await run_swarm(SwarmContext(order, brains, doors=host.doors))
            records = [each for row in read(order.journal, order.id) if isinstance(each := row.read_event(), ItemEnded)]
            items = {each.desk: each.item for each in records}
            exchanges = [row.read_event() for row in read(order.journal, names=[Exchange.__name__])]
        reached = {each.header("host") or "" for each in server.seen}
    admitted = [
        (items[each.desk], each.host, each.path)
        for each in exchanges
        if isinstance(each, Exchange)
        and each.verdict == "allow"
        and each.desk in items
        and not each.test
        and each.host != "door.local"  # the door itself, which answers with what a desk may reach
    ]
    return receipt, records, admitted, reached


@pytest.mark.container
@pytest.mark.long
@falls_without(
    "an item's own path",
    Removal(
        "swarm/fill.py",
        "    return replace(rule, path=fill_text(rule.path, key), query=query, rate=rate)\n",
        '    return replace(rule, path=rule.path.replace(PLACEHOLDER, "*"), query=query, rate=rate)\n',
    ),
)
async def test_no_item_reaches_another_items_hosts(settings: Config, tmp_path: Path) -> None:
    receipt, records, admitted, _ = await carry_out_behind_door(settings, tmp_path, REACHING)
    assert (receipt.outcome, receipt.done) == ("done", 3), receipt
    own = [(each.item, "erp.example.test", f"/contracts/{each.item}") for each in records]
    assert sorted(admitted) == sorted(own)


@pytest.mark.container
@pytest.mark.long
@no_guard("each way out that it tries has a guard of its own, which falls elsewhere: this shows that a swarm adds none")
async def test_a_compromised_brain_at_every_item_gains_nothing(settings: Config, tmp_path: Path) -> None:
    turn = partial(find_adversary, "hijacked")
    receipt, records, admitted, reached = await carry_out_behind_door(settings, tmp_path, REACHING, turn)
    assert len(records) == receipt.items == 3, receipt
    assert {(host, path) for item, host, path in admitted} <= {
        ("erp.example.test", f"/contracts/{each.item}") for each in records
    }
    assert all(path == f"/contracts/{item}" for item, _, path in admitted)
    assert reached <= {"erp.example.test"}
    assert not list((settings.run / "desks").glob("i*"))


@falls_without(
    "a workbook's rows as they are taken from a desk",
    Removal(
        "swarm/workbook.py",
        "    rows: Annotated[list[list[str]], Length(MAX_ITEMS + 1)] = field(default_factory=list)\n",
        "    rows: list[list[str]] = field(default_factory=list)\n",
    ),
)
def test_a_compromised_desk_cannot_report_more_rows_than_the_limit() -> None:
    report = json.dumps({"rows": [["a"]] * (MAX_ITEMS + 2)}).encode()
    with pytest.raises(BriefError, match="cannot be read"):
        parse_rows(report, "rows.xlsx")


ADDED = {
    "an item in the place of another": [Item(0, "a", HEX, "item.txt"), Item(1, "b", "cd" * 32, "item.txt")],
    "an item that is gone": [Item(0, "a", HEX, "item.txt"), Item(1, "c", HEX, "item.txt")],
}


@falls_without(
    "items that a swarm has",
    Removal(
        "swarm/items.py",
        "        if key not in by_key or (by_key[key].sha256, by_key[key].name) != (sha256, name):\n",
        "        if key not in by_key:\n            by_key[key] = found[0]\n        if not sha256:\n",
    ),
)
@pytest.mark.parametrize("case", ADDED)
def test_adding_items_does_not_change_an_existing_item(case: str) -> None:
    before = [("a", HEX, "item.txt"), ("b", HEX, "item.txt")]
    with pytest.raises(BriefError, match=r"is missing;|was changed;"):
        add_items(before, ADDED[case])


@falls_without(
    "a report that has every item",
    Removal(
        "keys/certify_swarm.py",
        "                self.reduced = None  # a report built before does not include this item\n",
        "",
    ),
)
def test_a_report_is_not_certified_with_items_added_after_it(journal: Journal) -> None:
    journal.add(REPORT, "keys", Certified(REPORT, "register.xlsx", HEX, HEX))
    later = record(0, digests=("cd" * 32,))
    write(journal, [record(0)], Reduced(SWARM, REPORT, ("register.xlsx",), (HEX,)), later)
    claim, _ = read_certificate(certify_swarm(journal, SWARM))
    assert claim["report"] == []
