"""Tests of a whole brief with the providers' own libraries: protocols on loopback, real desks, people elsewhere."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from examples import trial
from examples.trial import answer_requests
from examples.twenty import pdfs, report
from examples.twenty.run import HERE, is_confirmation, prepare
from examples.twenty.supplier import HOST, Supplier, serve_supplier
from PIL import Image

from hotdesk.brain.models.seam import Reply
from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Event, JobPaused, Planned, Resumed
from hotdesk.hands.screen.tools import HEIGHT, WIDTH
from hotdesk.job.record.receipt import Receipt, read_receipt
from hotdesk.plan import Plan, Step, to_json
from hotdesk.tool import Call
from tests.e2e.test_screen import COLOURS, FORM, middle
from tests.providers.acting import Acting
from tests.providers.behind import Asked, behind
from tests.providers.server import Body, Provider, Trouble

pytestmark = pytest.mark.container
TOKEN = "t5-supplier-Qm8ZrW3kXp6NnB2cVd9s"
KEYS = {"anthropic": "a1-provider-Hf4TtY7uJk0LlM3nBv6c", "openai": "o2-provider-Rw9EeS5dXz1AaQ4pGh8i"}
OPUS, SONNET, GPT, MINI = (
    "anthropic:claude-opus-4-5", "anthropic:claude-sonnet-5", "openai:gpt-5", "openai:gpt-5-mini",
)  # fmt: skip
SEEING = "openai:gpt-5.4"
"""A model with a computer tool of its own."""
DOWN = [Trouble(529, headers=(("x-should-retry", "false"),))] * 1000
"""A provider that is down for longer than anyone should wait."""
HOSTS = {
    "ask": (f"GET https://{HOST}/orders? up=1K",),
    "confirm": (f"GET https://{HOST}/confirmations? up=1K", f"POST https://{HOST}/confirmations up=4K"),
}
BOOK = "Reconciliation.xlsx"
PIECE = 1 << 20
PATIENCE = 100.0
"""Seconds a job may take."""


@dataclass
class Office:
    """A running supplier, and a state directory whose vault has its token."""

    supplier: Supplier
    home: Path
    env: dict[str, str]
    out: Path
    providers: dict[str, Provider] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        return self.home / "lib/keys" / FILE

    @property
    def jobs(self) -> list[str]:
        folders = sorted((self.home / "lib/jobs").iterdir(), key=lambda each: each.stat().st_ctime_ns)
        return [each.name for each in folders]

    def hotdesk(self, *argv: str, approves: bool = True) -> tuple[int, str]:
        """Run `hotdesk` while a person answers from another process; return its exit code and output."""
        urls = {f"{kind.upper()}_BASE_URL": each.base_url for kind, each in self.providers.items()}
        keys = {f"{kind.upper()}_API_KEY": key for kind, key in KEYS.items()}
        told = self.home / "told.txt"
        with told.open("wb") as file:
            working = subprocess.Popen(
                [*trial.HOTDESK, *argv],
                env={**self.env, **urls, **keys},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                end = time.monotonic() + PATIENCE
                while working.poll() is None and time.monotonic() < end:
                    if approves and b" requests access: " in told.read_bytes():
                        answer_requests(self.env, is_confirmation)
                    time.sleep(0.1)
            finally:
                working.kill() if working.poll() is None else None
                code = working.wait()
        return code, told.read_text()

    def work(self, *argv: str) -> tuple[int, str]:
        return self.hotdesk("work", str(self.home / "brief"), *argv, "--out", str(self.out))

    def receipt(self) -> Receipt:
        return read_receipt(self.journal, self.jobs[-1])

    def events(self, *kinds: type) -> list[Event]:
        return [event for row in read(self.journal, self.jobs[-1]) if isinstance(event := row.read_event(), kinds)]


@pytest.fixture(scope="module")
def shared(settings: Config, home: Path) -> Iterator[Office]:
    folder = home / "providers"
    folder.mkdir(mode=0o755)
    (folder / "brief").mkdir()
    for name in ("brief.toml", "brain.py", "parse.py", "report.py"):
        (folder / "brief" / name).write_bytes((HERE / name).read_bytes())
    pdfs.write(folder / "brief/invoices", 0)
    with serve_supplier(folder, TOKEN, 0) as supplier:
        env = {name: value for name, value in prepare(folder, supplier).items() if is_plain(name)}
        yield Office(supplier, folder, {**env, "HOTDESK_IMAGES": str(settings.images)}, folder / "out")


@pytest.fixture
def office(settings: Config, shared: Office) -> Iterator[Office]:
    """Yield the office; at the end no desk may be left in it, and no secret in any file."""
    shared.supplier.requests.clear()
    shared.supplier.confirmations.clear()
    (shared.out / BOOK).unlink(missing_ok=True)
    shared.providers = {}
    yield shared
    desks = shared.home / "run/desks"
    assert not desks.exists() or os.listdir(desks) == []
    secrets = [key.encode() for key in (TOKEN, *KEYS.values())]
    assert [path for path in below(shared.home) if holds(path, secrets)] == []
    said = json.dumps([each.requests for each in shared.providers.values()])
    assert TOKEN not in said
    assert not any(key in said for key in KEYS.values())


def is_plain(variable: str) -> bool:
    """Return whether a variable is safe to pass on: provider keys of the person who runs the tests must not be used."""
    return variable.startswith("HOTDESK_") or variable in ("PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH")


@contextmanager
def minds(office: Office, **minds: Callable[[Asked], Reply]) -> Iterator[dict[str, Provider]]:
    with ExitStack() as stack:
        office.providers = {kind: stack.enter_context(behind(kind, mind)) for kind, mind in minds.items()}
        yield office.providers


def acting(office: Office, **given: Any) -> Acting:
    return Acting(office.home / "brief/brain.py", HOSTS, **given)


def below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def holds(path: Path, secrets: Sequence[bytes]) -> bool:
    """Return whether a file contains one of the secrets; holes are skipped, because disks of desks are sparse files."""
    longest = max(map(len, secrets))
    with path.open("rb") as file:
        place = 0
        while True:
            try:
                begin = os.lseek(file.fileno(), place, os.SEEK_DATA)
            except OSError:  # the rest of the file is a hole
                return False
            data = os.pread(file.fileno(), PIECE + longest, begin)
            if any(secret in data for secret in secrets):
                return True
            place = begin + PIECE


def is_right(office: Office, *rolled_back: str) -> None:
    """Check that the brief was carried out with the same effects as the script's own run, and no others."""
    found = [
        {"Invoice": each.number, "Order": each.order, "Vendor": each.vendor, "Invoiced": each.total,
         "Ordered": each.ordered}
        for each in pdfs.invoices(0)
    ]  # fmt: skip
    with zipfile.ZipFile(office.out / BOOK) as book:
        assert book.read("xl/worksheets/sheet1.xml").decode().endswith(report.sheet(found))
    [confirmation] = office.supplier.confirmations
    assert confirmation["orders"] == sorted(each.order for each in pdfs.invoices(0) if each.total == each.ordered)
    assert [asked[:2] for asked in office.supplier.requests if asked[0] == "POST"] == [("POST", "/confirmations")]
    receipt = office.receipt()
    refused = [each for each in receipt.requests if each.verdict == "deny"]
    assert [(each.host, each.count) for each in refused] == [("rates.example.test", 1)]
    asked = [each for each in receipt.requests if each.verdict == "ask"]
    assert [(each.method, each.host, each.count) for each in asked] == [("POST", HOST, 1)]
    steps = {step.name: (step.stand, step.rolled_back) for step in receipt.steps}
    again = ("book", *rolled_back)
    assert steps == {name: ("done", int(name in again)) for name in ("read", "ask", "book", "confirm")}
    assert all(provider.refusals == [] for provider in office.providers.values())


def costs(office: Office) -> dict[tuple[str, str], int]:
    """Return how many bytes were sent to each model's provider, by part of the work."""
    receipt = office.receipt()
    assert all(cost.dollars > 0 and not cost.unpriced for cost in receipt.costs)
    assert all(cost.cached > 0 for cost in receipt.costs if cost.part == "act")
    return {(cost.part, cost.model): cost.up for cost in receipt.costs}


def unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
        case list():
            return [unmarked(each) for each in value]
    return value


def grows(requests: Sequence[Body], key: str) -> int:
    """Check that each request of a step begins, byte for byte, with the one before; return how many do."""
    grown = 0
    for before, after in pairwise(requests):
        old, new = (unmarked(each[key]) for each in (before, after))
        if json.dumps(old[0]) != json.dumps(new[0]):
            continue  # another step
        assert json.dumps(new).startswith(json.dumps(old)[:-1])
        rest = [json.dumps({name: each for name, each in body.items() if name != key}) for body in (before, after)]
        assert rest[0] == rest[1]
        grown += 1
    return grown


def test_a_brief_is_carried_out_by_anthropics_library(office: Office) -> None:
    mind = acting(office)
    with minds(office, anthropic=mind) as providers:
        code, told = office.work("--model", SONNET)
        assert code == 0, told
        is_right(office)
        requests = providers["anthropic"].requests
        assert sum(costs(office).values()) == sum(providers["anthropic"].bytes)
        assert f"acting, {SONNET}: ~$" in told
        assert f"{SONNET}, asked at {providers['anthropic'].base_url}" in told
        assert " sent to its provider" in told
        assert grows(requests, "messages") > 10
        assert all("cache_control" in str(body["system"]) for body in requests)
        assert all("cache_control" in str(body["messages"][-1]) for body in requests)
        assert {each["authorization"] for each in providers["anthropic"].headers} == {f"Bearer {KEYS['anthropic']}"}


@pytest.mark.long
def test_a_brief_is_carried_out_by_openais_library(office: Office) -> None:
    with minds(office, openai=acting(office)) as providers:
        code, told = office.work("--model", GPT)
        assert code == 0, told
        is_right(office)
        requests = providers["openai"].requests
        assert sum(costs(office).values()) == sum(providers["openai"].bytes)
        assert grows(requests, "input") > 10
        assert len({body["prompt_cache_key"] for body in requests}) == 1
        assert all(body["store"] is False for body in requests)


@pytest.mark.long
def test_a_brief_is_carried_out_by_a_self_hosted_server(office: Office) -> None:
    with minds(office, chat=acting(office)) as providers:
        code, told = office.work("--model", f"chat:own@{providers['chat'].base_url}")
        assert code == 0, told
        is_right(office)
        assert sum(cost.up for cost in office.receipt().costs) == sum(providers["chat"].bytes)
        assert all(cost.unpriced == cost.replies for cost in office.receipt().costs)


@pytest.mark.long
def test_the_planner_takes_over_a_step_that_a_cheaper_model_failed_and_both_are_charged(office: Office) -> None:
    planner = acting(office, findings=["Step 'book' overwrites what 'read' made; keep it."])
    worker = acting(office, fails={"ask"})
    with minds(office, anthropic=planner, openai=worker) as providers:
        code, told = office.work("--planner", OPUS, "--model", MINI)
        assert code == 0, told
        is_right(office, "ask")
        assert planner.shown[:4] == ["plan", "findings"] * 2
        assert set(planner.shown[4:]) == {"ask", "book"}  # second attempts
        assert worker.shown.count("ask") == 1
        assert set(worker.shown) == {"read", "ask", "book", "confirm"}
        rounds = [event for event in office.events(Planned) if isinstance(event, Planned)]
        assert [len(event.findings) for event in rounds] == [1, 0]
        assert "keep it" in json.dumps(providers["anthropic"].requests[2]["messages"][-1])
        paid = costs(office)
        assert set(paid) == {("plan", OPUS), ("act", OPUS), ("act", MINI)}
        assert paid["act", MINI] == sum(providers["openai"].bytes)
        assert paid["plan", OPUS] + paid["act", OPUS] == sum(providers["anthropic"].bytes)
        assert f"planning, {OPUS}: ~$" in told
        assert f"acting, {MINI}: ~$" in told


@pytest.mark.long
def test_a_job_whose_providers_are_all_down_pauses_and_continues_when_one_is_back(office: Office) -> None:
    mind = acting(office)

    def until_book(asked: Asked) -> Reply:
        if mind.shown.count("book") == 0 and "# Your step: book" in asked.told[0]:
            office.providers["openai"].trouble.extend(DOWN)
        return mind(asked)

    with minds(office, anthropic=acting(office), openai=until_book) as providers:
        providers["anthropic"].trouble.extend(DOWN)
        code, told = office.work("--model", SONNET, "--model", GPT)
        assert code == 75, told
        assert office.receipt().outcome == "paused"
        [paused] = office.events(JobPaused)
        assert isinstance(paused, JobPaused)
        assert SONNET in paused.why
        assert GPT in paused.why
        assert f"hotdesk resume {office.jobs[-1]}" in told
        assert {cost.model for cost in office.receipt().costs} == {GPT}
        before = len(office.jobs)
        providers["openai"].trouble.clear()
        code, told = office.hotdesk("resume", office.jobs[-1])
        assert code == 0, told
        assert len(office.jobs) == before
        assert len(office.events(Resumed)) == 1
        is_right(office)


@pytest.mark.long
def test_a_job_with_a_used_up_budget_continues_in_its_step_with_its_thoughts(office: Office) -> None:
    with minds(office, anthropic=acting(office)) as providers:
        code, told = office.work("--model", OPUS, "--acts", "8")
        assert code == 75, told
        assert "the job's budget of 8 acts is used up" in office.receipt().why
        told_before = len(providers["anthropic"].requests)
        code, told = office.hotdesk("resume", office.jobs[-1], "--acts", "100")
        assert code == 0, told
        is_right(office)
        first = providers["anthropic"].requests[told_before]["messages"]
        assert "# Your step: ask" in first[0]["content"][0]["text"]
        assert [block["type"] for block in first[1]["content"]] == ["thinking", "tool_use"]  # were sent back
        assert sum(costs(office).values()) == sum(providers["anthropic"].bytes)


# -- by pixels, with each vendor's own tool ---------------------------------------------------------------------------

SCREEN = """goal = "Fill in the form on the screen."
image = "desktop"
inputs = ["form.py"]
seconds = 300
[[deliverables]]
path = "form.json"
checks = []
"""
UNTIL_TAKEN = "for n in $(seq 50); do [ -s form.json ] && exit; sleep 0.1; done; exit 1"
FILLED = Plan((Step("fill", "Fill in the form.", files=("form.py",), makes=("form.json",)),))
WAYS: dict[str, Callable[..., dict[str, object]]] = {
    "anthropic look": lambda: {"action": "screenshot"},
    "anthropic wait": lambda: {"action": "wait", "duration": 1},
    "anthropic click": lambda x, y: {"action": "left_click", "coordinate": [x, y]},
    "anthropic type": lambda text: {"action": "type", "text": text},
    "openai look": lambda: {"type": "screenshot"},
    "openai wait": lambda: {"type": "wait"},
    "openai click": lambda x, y: {"type": "click", "button": "left", "x": x, "y": y},
    "openai type": lambda text: {"type": "type", "text": text},
}


class Filling:
    """A model that fills in a form by what it sees."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seen: list[tuple[int, int]] = []
        """Size of each picture it was shown."""
        self.doing = self.fill()

    def __call__(self, asked: Asked) -> Reply:
        if "plan" in asked.tools:
            return uses(Call("", "plan", {"plan": to_json(FILLED)}))
        if "findings" in asked.tools:
            return uses(Call("", "findings", {"findings": []}))
        assert "computer" in asked.tools
        assert "screen_scroll" not in asked.tools
        return next(self.doing) if not asked.turns else self.doing.send(asked)

    def fill(self) -> Generator[Reply, Asked, None]:
        """Start the form, wait until it is visible, fill it in, and check that it was accepted."""
        yield uses(Call("", "screen_launch", {"argv": ["python3", "form.py"]}))
        where: dict[str, tuple[int, int]] = {}
        while len(where) < len(COLOURS):
            picture = self.look((yield self.native(("wait",), ("look",))))
            found = {name: middle(picture, colour) for name, colour in COLOURS.items()}
            where = {name: at for name, at in found.items() if at is not None}
        yield self.native(("click", *where["name"]), ("type", "Ada Lovelace"), ("click", *where["note"]))
        asked = yield self.native(("type", "first\n\tsecond"), ("click", *where["agreed"]))
        assert self.look(asked).size == self.seen[0]
        yield self.native(("click", *where["submit"]))
        yield uses(
            Call("", "run", {"command": "for n in $(seq 50); do [ -s form.json ] && exit; sleep 0.1; done; exit 1"})
        )
        yield uses(Call("", "finish", {"summary": "The form is filled in."}))

    def native(self, *actions: tuple[Any, ...]) -> Reply:
        """Call the vendor's own tool, once for several actions."""
        return uses(Call("", "computer", {"actions": [WAYS[f"{self.kind} {name}"](*rest) for name, *rest in actions]}))

    def look(self, asked: Asked) -> Image.Image:
        """Open the newest picture of a request, where its protocol has it."""
        if self.kind == "anthropic":
            [block] = [each for each in asked.body["messages"][-1]["content"] if each["type"] == "tool_result"][-1:]
            data = next(part["source"]["data"] for part in block["content"] if part["type"] == "image")
        else:
            [item] = [each for each in asked.body["input"] if each.get("type") == "computer_call_output"][-1:]
            data = item["output"]["image_url"].partition(",")[2]
        picture = Image.open(BytesIO(base64.b64decode(data))).convert("RGB")
        self.seen.append(picture.size)
        return picture


def uses(*calls: Call) -> Reply:
    return Reply(thought=f"I use {calls[0].tool}.", calls=calls)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["anthropic", pytest.param("openai", marks=pytest.mark.long)])
def test_a_form_is_filled_in_by_each_vendors_own_computer_tool(kind: str, office: Office) -> None:
    folder = office.home / f"form-{kind}"
    folder.mkdir()
    (folder / "brief.toml").write_text(SCREEN)
    (folder / "form.py").write_bytes(FORM.read_bytes())
    mind = Filling(kind)
    with minds(office, **{kind: mind}) as providers:
        code, told = office.hotdesk(
            *(
                "work",
                str(folder),
                "--model",
                {"anthropic": SONNET, "openai": SEEING}[kind],
                "--out",
                str(folder / "out"),
            )
        )
        assert code == 0, told
        assert providers[kind].refusals == []
    assert json.loads((folder / "out/form.json").read_text()) == {
        "name": "Ada Lovelace", "note": "first\n\tsecond", "agreed": True
    }  # fmt: skip
    assert set(mind.seen) == {(WIDTH, HEIGHT)}
