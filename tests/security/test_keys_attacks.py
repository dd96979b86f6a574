"""Attacks on the keys process by its peers: a compromised door, and an owner that sends malformed messages."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from hotdesk.brief import Scope, parse_grant, parse_rule, scope_json
from hotdesk.desk.seam import new_id
from hotdesk.drive.chain import parse_head
from hotdesk.drive.journal import FILE, export_head, read
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.signing import load_own_public
from hotdesk.event import Alarm, Answered, Burnt, Event, Exchange, Opened, Proven, Revoked, RootAct, WallProven
from hotdesk.ipc.frames import HEAD, Frames
from hotdesk.keys.process import LATE_S, KeysProcess
from hotdesk.linux import private_files
from hotdesk.vault import Command, Token, Vault, encode_argv
from hotdesk.walls import WallProof
from tests.security.guards import Removal, falls_without, no_guard

PROOF = WallProof("container", "host", True, "crun 1.14.1")
SECRET = b"keys-secret-value-0123456789"
DESK, OTHER = new_id(), new_id()
SCOPE = Scope(
    rules=(parse_rule("erp.test"),),
    grants=(parse_grant("erp-token@erp.test env=ERP_TOKEN"), parse_grant("printed@erp.test header=X-Printed")),
)
WIDE = "\x80" * (1 << 20)
"""Two bytes each in a message, six where it is written back as JSON."""
NESTED = b'{"n":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


class Line:
    """One end of a connection to keys."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(30)
        self.frames = Frames()
        self.heard: list[dict[str, Any]] = []

    def tell(self, **message: object) -> None:
        data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.sock.sendall(HEAD.pack(len(data), 0) + data)

    def shout(self, data: bytes) -> None:
        with suppress(OSError):
            self.sock.sendall(data)

    def until(self, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            for message in self.heard:
                if found(message):
                    self.heard.remove(message)
                    return message
            data = self.sock.recv(1 << 16)
            assert data, "keys cut the line, or died"
            self.heard += [message for message, _ in self.frames.feed(data)]

    def ask(self, number: int, **message: object) -> dict[str, Any]:
        self.tell(n=number, **message)
        return self.until(lambda told: told.get("re") == number)

    def note(self, event: Event, number: int = 1) -> dict[str, Any]:
        return self.ask(number, verb="note", desk="", events=[{"event": type(event).__name__, "data": asdict(event)}])

    def is_cut(self) -> bool:
        try:
            while self.sock.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True


class Kept:
    """Keys that run in a thread, with their vault, and a keeper connection that the test plays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys: KeysProcess | None = None
        self.keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.teller, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.teller.settimeout(30)
        self.ends: list[socket.socket] = [self.keeper, self.teller, theirs, tells]
        self.failure: BaseException | None = None
        for desk in (DESK, OTHER):
            self.keeper.send(json.dumps({"desk": desk}).encode())
        self.thread = threading.Thread(target=self.serve, args=(theirs, tells))
        self.thread.start()

    def serve(self, keeper: socket.socket, tells: socket.socket) -> None:
        """Run as keys; remember the error that ended them."""
        self.keys = keys = KeysProcess(keeper, self.folder, tells)
        try:
            keys.serve()
        except BaseException as e:  # noqa: BLE001 - whatever it is, an attack caused it
            self.failure = e
        finally:
            for line in keys.lines:
                line.sock.close()

    def line(self, actor: str) -> Line:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.ends.append(ours)
        with theirs:
            socket.send_fds(self.keeper, [json.dumps({"line": actor}).encode()], [theirs.fileno()])
        return Line(ours)

    def opened(self, desk: str = DESK) -> tuple[Line, Line]:
        door, owner = self.line("door"), self.line("owner")
        door.until(lambda told: told.get("ready") is True)
        told = owner.ask(7, verb="open", desk=desk, scope=json.loads(scope_json(SCOPE)), seconds=60)
        assert "hotdesk-secret-erp-token-" in told["ok"]["env"]["ERP_TOKEN"]
        return door, owner

    def close(self) -> None:
        self.keeper.close()
        self.thread.join(10)
        for end in self.ends:
            end.close()


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Kept]:
    folder = tmp_path / "keys"
    private_files.make_folder(folder, None)
    vault = Vault.make(folder, "file")
    vault.put("erp-token", Token(), SECRET)
    vault.put("printed", Command(), encode_argv(["/bin/echo", "printed-by-a-program"]))
    kept = Kept(folder)
    yield kept
    kept.close()
    assert kept.failure is None


def exchange(desk: str, **fields: Any) -> Exchange:
    told: dict[str, Any] = {
        "verdict": "deny",
        "rule": "",
        "method": "GET",
        "scheme": "https",
        "host": "a.test",
        "port": 443,
    }
    return Exchange(desk, "", **(told | {"path": "/", "status": 403, "up": 0, "down": 0, "ms": 0} | fields))


def written(kept: Kept) -> list[tuple[str, str]]:
    """List the journal's content: who wrote it, and what."""
    return [(row.actor, row.name) for row in read(kept.folder / FILE)]


def alive(kept: Kept) -> bool:
    told = kept.line("owner").note(Burnt(OTHER, "asked"))
    return told.get("ok") == {} and kept.thread.is_alive()


FORGED: dict[str, Event] = {
    "an approval": Answered(DESK, "q1", "d" * 64, "approved", "uid 0 pid 1"),
    "a refusal": Answered(DESK, "q1", "d" * 64, "refused", "uid 0 pid 1"),
    "a root act": RootAct(DESK, "owner", ("id",), "/"),
    "a proof": Proven(DESK, ("dns",), ()),
    "an end": Burnt(DESK, "asked"),
    "an opening": Opened(DESK, "0" * 64, (), ()),
    "a wall": WallProven(DESK, "microvm", "own", True, "qemu 9.2", "kvm"),
}


@falls_without(
    "a door does not answer questions",
    Removal("keys/process.py", ' or (isinstance(event, Answered) and event.answer != "expired")', ""),
    cases="an approval | a refusal",
)
@falls_without(
    "a line says what it may",
    Removal(
        "keys/process.py",
        '"door": (RequestAdmitted, Exchange, Alarm, Revoked, Asked, Answered),',
        '"door": (Exchange, Alarm, Revoked, Asked, Answered, RootAct, Proven, Burnt, Opened, WallProven),',
    ),
    cases="a root act | a proof | an end | an opening | a wall",
)
@pytest.mark.parametrize("what", FORGED)
def test_a_door_cannot_record_events_of_others(keys: Kept, what: str) -> None:
    door, owner = keys.opened()
    event = FORGED[what]
    door.tell(n=5, event=type(event).__name__, data=asdict(event))
    assert "door may not record an event" in door.until(lambda told: told.get("re") == 5)["error"]["text"]
    assert written(keys) == [("keys", "Opened")]
    assert not any(told.get("event") == "Answered" for told in owner.heard)


@falls_without(
    "times of events that SQLite can store",
    Removal("drive/journal.py", "        if not 0 <= at <= _MAX_TIME:\n", "        if at < -(1 << 70):\n"),
    Removal(
        "keys/process.py",
        "        except Exception as e:  # noqa: BLE001 - the waiting callers must be told, whatever happened\n",
        "        except HotdeskError as e:\n",
    ),
)
@pytest.mark.parametrize("at", [1 << 63, -1, 10**30])
def test_an_impossible_time_of_a_nodes_event_does_not_end_keys(keys: Kept, at: int) -> None:
    owner = keys.line("owner")
    event = {"event": "Burnt", "data": {"desk": OTHER, "why": "asked"}, "at": at}
    assert "is not between 0 and" in owner.ask(3, verb="pulled", desk="", events=[event])["error"]["text"]
    assert alive(keys)


@falls_without("who says which wall stands")
@pytest.mark.parametrize("what", ["an opening", "a wall"])
def test_an_owner_cannot_record_which_wall_is_in_place(keys: Kept, what: str) -> None:
    _, owner = keys.opened()
    assert "owner may not record an event" in owner.note(FORGED[what])["error"]["text"]
    assert written(keys) == [("keys", "Opened")]


@no_guard("lines of owners and doors have verbs and events; what only the keeper's line has is neither")
@pytest.mark.parametrize("actor", ["owner", "door"])
def test_a_keepers_proof_is_not_accepted_from_others(keys: Kept, actor: str) -> None:
    door, owner = keys.opened()
    line = owner if actor == "owner" else door
    line.tell(n=5, desk=DESK, proof=asdict(PROOF))
    if actor == "owner":
        assert (
            "unknown request 'None' to the keys process"
            in line.until(lambda told: told.get("re") == 5)["error"]["text"]
        )
    assert alive(keys)
    assert ("keeper", "WallProven") not in written(keys)


@no_guard("it must pass: the keeper says what it proved")
def test_a_keepers_proof_of_a_desk_with_a_door_is_recorded(keys: Kept) -> None:
    keys.opened()
    keys.keeper.send(json.dumps({"desk": DESK, "proof": asdict(PROOF)}).encode())
    assert alive(keys)
    assert written(keys)[:2] == [("keys", "Opened"), ("keeper", "WallProven")]
    (told,) = [row.read_event() for row in read(keys.folder / FILE) if row.name == WallProven.__name__]
    assert told == WallProven(DESK, **asdict(PROOF))


@no_guard("it must pass: doors say what expired")
def test_a_door_may_record_that_a_question_expired(keys: Kept) -> None:
    door, owner = keys.opened()
    door.tell(event="Answered", data=asdict(Answered(DESK, "q1", "d" * 64, "expired", "")))
    owner.until(lambda told: told.get("event") == "Answered")
    assert written(keys) == [("keys", "Opened"), ("door", "Answered")]


@falls_without(
    "a door's word that an exchange was a test expires",
    Removal("keys/process.py", "ended and time.monotonic() < charter.proven_at + LATE_S", "ended"),
    cases="over",
)
@no_guard("it must pass: a door may tell of a test's last exchange shortly after", cases="just ended")
@pytest.mark.parametrize(("ago", "is_test"), [(0.0, True), (LATE_S, False)], ids=["just ended", "over"])
def test_a_door_cannot_pass_an_exchange_off_as_part_of_a_finished_selftest(
    keys: Kept, ago: float, is_test: bool
) -> None:
    door, owner = keys.opened()
    assert owner.note(Proven(DESK, ("dns",), ()))["ok"] == {}
    assert keys.keys is not None
    keys.keys.charters[DESK].proven_at -= ago
    door.tell(event="Exchange", data=asdict(exchange(DESK, test=True)))
    keys.line("owner").note(Burnt(OTHER, "after"))
    [stored] = [json.loads(row.data) for row in read(keys.folder / FILE) if row.name == "Exchange"]
    assert stored.get("test", False) is is_test


STRANGE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an unknown verb": {"verb": "reveal", "desk": DESK},
    "a verb of another type": {"verb": ["open"], "desk": DESK},
    "a desk of another type": {"verb": "open", "desk": {"a": 1}},
    "a desk that is a path": {"verb": "close", "desk": "../../vault.json"},
    "a scope of another type": {"verb": "open", "desk": OTHER, "scope": 7, "seconds": 1},
    "a deadline that is none": {"verb": "open", "desk": OTHER, "scope": {}, "seconds": "nan"},
    "a deadline without end": {"verb": "open", "desk": OTHER, "scope": {}, "seconds": 1e308},
    "a number as wide as the line": {"n": WIDE, "verb": "reveal", "desk": DESK},
    "a number that is a tree": {"n": {"a": [[[]]]}, "verb": "reveal", "desk": DESK},
    "an event as wide as the line": {"verb": "note", "event": WIDE, "data": {}, "desk": DESK},
    "an event of another type": {"verb": "note", "event": {}, "data": [], "desk": DESK},
    "fields of another type": {"verb": "note", "event": "Burnt", "data": {"desk": [], "why": {}}, "desk": DESK},
    "half a character": {"verb": "note", "event": "Burnt", "data": {"desk": DESK, "why": "\ud800"}, "desk": DESK},
    "half a character as passphrase": {"verb": "unlock", "passphrase": "\ud800", "desk": DESK},
    "an answer without a question": {"verb": "answer", "desk": DESK},
    "a step of no desk": {"verb": "step", "desk": OTHER, "step": {}},
    "events that are a number": {"event": 5, "data": 5},
    "an event of an unknown desk": {"event": "Burnt", "data": asdict(Burnt(OTHER, ""))},
    "use by nobody": {"used": 5},
    "use as wide as the line": {"used": WIDE},
    "use by what are no desks": {"used": [{}, None, "x", 5]},
    "a value of no desk": {"print": "0", "desk": OTHER, "n": 1},
    "a value of no grant": {"print": "99", "desk": DESK, "n": 1},
    "a value under no number": {"print": "1", "desk": DESK, "n": "x"},
    "a value under no number at all": {"print": "1", "desk": DESK},
}


@falls_without(
    "answers have a bound",
    Removal(
        "keys/peer.py",
        "        except FrameError:\n            self.cut = True\n",
        "        finally:\n            pass\n",
    ),
    Removal("keys/process.py", "str(error)[:REASON]", "str(error)"),
    Removal("keys/process.py", "re=number if isinstance(number, int) else None, error", "re=number, error"),
    cases="""
    an event as wide as the line-door | an event as wide as the line-owner | a number as wide as the line-owner
    """,
)
@falls_without(
    "a rim around every message",
    Removal(
        "keys/process.py", "except Exception as e:  # noqa: BLE001 - a rim", "except ZeroDivisionError as e:  # no rim"
    ),
    cases="""
    an event as wide as the line-door | an event of another type-door | fields of another type-door |
    half a character-door | events that are a number-door | an event of an unknown desk-door |
    use by what are no desks-door | a value of no desk-door | a value of no grant-door |
    a value under no number-door | a value under no number at all-door | nothing-owner | an unknown verb-owner |
    a verb of another type-owner | a desk of another type-owner | a desk that is a path-owner |
    a scope of another type-owner | a deadline that is none-owner | a deadline without end-owner |
    a number as wide as the line-owner | a number that is a tree-owner | an event as wide as the line-owner |
    an event of another type-owner | fields of another type-owner | half a character as passphrase-owner |
    an answer without a question-owner | events that are a number-owner | an event of an unknown desk-owner |
    use by nobody-owner | use as wide as the line-owner | use by what are no desks-owner |
    a value of no desk-owner | a value of no grant-owner | a value under no number-owner |
    a value under no number at all-owner
    """,
)
@no_guard(
    "nothing in it is anything a door can ask for",
    cases="""
    nothing-door | an unknown verb-door | a verb of another type-door | a desk of another type-door |
    a desk that is a path-door | a scope of another type-door | a deadline that is none-door |
    a deadline without end-door | a number as wide as the line-door | a number that is a tree-door |
    half a character as passphrase-door | an answer without a question-door | a step of no desk-door |
    use by nobody-door | use as wide as the line-door
    """,
)
@no_guard("it is written down as what it is, in plain ASCII", cases="half a character-owner")
@no_guard("it is done, and concerns no desk", cases="a step of no desk-owner")
@pytest.mark.parametrize("actor", ["door", "owner"])
@pytest.mark.parametrize("what", STRANGE)
def test_a_malformed_message_affects_no_other_connection(keys: Kept, actor: str, what: str) -> None:
    door, owner = keys.opened()
    speaker, other = (door, owner) if actor == "door" else (owner, door)
    speaker.tell(**STRANGE[what])
    if actor == "door":
        assert other.note(Burnt(OTHER, "after"))["ok"] == {}
    else:
        other.tell(n=9, event="Alarm", data=asdict(Alarm(DESK, "leak", "erp-token", "a.test")))
        keys.line("owner").note(Burnt(OTHER, "after"))
        assert ("door", "Alarm") in written(keys)
    assert alive(keys)
    assert SECRET not in json.dumps([door.heard[1:], owner.heard], default=str).encode()


GARBLED = {
    "no length": b"\xff" * 8,
    "no JSON": HEAD.pack(8, 0) + b"not json",
    "no object": HEAD.pack(2, 0) + b"[]",
    "no text": HEAD.pack(4, 0) + b'{"\xff"',
    "too deep": HEAD.pack(len(NESTED), 0) + NESTED,
    "a number without end": HEAD.pack(5006, 0) + b'{"n":' + b"1" * 5000 + b"}",
    "more than a message holds": HEAD.pack(5 << 20, 0) + b"x" * (1 << 16),
    "bytes beside a message": HEAD.pack(2, 1) + b"{}x",
}


@falls_without("a garbled line is cut", Removal("keys/peer.py", "except (OSError, FrameError):", "except OSError:"))
@pytest.mark.parametrize("actor", ["door", "owner"])
@pytest.mark.parametrize("what", GARBLED)
def test_only_the_connection_that_sends_garbage_is_cut(keys: Kept, actor: str, what: str) -> None:
    door, owner = keys.opened()
    speaker = door if actor == "door" else owner
    speaker.shout(GARBLED[what])
    assert speaker.is_cut()
    assert alive(keys)


@falls_without(
    "values are asked for under numbers of keys' own",
    Removal(
        "keys/process.py",
        "        self.values.make(grants[0], self.charters[desk].scope, desk, deliver)\n",
        "        self.commands.number = number - 1\n"
        "        self.values.make(grants[0], self.charters[desk].scope, desk, deliver)\n",
    ),
)
def test_two_requests_with_the_same_number_get_two_answers(keys: Kept) -> None:
    door, owner = keys.opened()
    for _ in range(2):
        door.tell(print="1", desk=DESK, n=1)
    numbers = [json.loads(keys.teller.recv(4096))["n"] for _ in range(2)]
    for number in numbers:
        keys.teller.send(json.dumps({"n": number, "value": f"printed-{number}"}).encode())
    got = {door.until(lambda told: told.get("re") == 1)["ok"]["value"] for _ in range(2)}
    assert len(got) == 2
    assert owner.note(Burnt(OTHER, "after"))["ok"] == {}


@falls_without(
    "few programs wait", Removal("keys/token_command.py", "if len(self.waiting) >= MAX_WAITING:", "if False:")
)
def test_a_door_that_requests_endless_values_blocks_no_other(keys: Kept) -> None:
    door, owner = keys.opened()
    for number in range(2000):
        door.tell(print="1", desk=DESK, n=number)
    assert owner.note(Burnt(OTHER, "after"))["ok"] == {}
    assert "wait" in door.until(lambda told: "error" in told)["error"]["text"]


@falls_without("what a door ended stays ended")
def test_a_grant_the_door_ended_stays_ended_for_the_next_door(keys: Kept) -> None:
    door, owner = keys.opened()
    door.tell(event="Revoked", data=asdict(Revoked(DESK, "erp-token", "it came back")))
    owner.until(lambda told: told.get("event") == "Revoked")
    told = keys.line("door").until(lambda told: "charter" in told)
    assert [one["grant"]["secret"] for one in told["grants"]] == ["printed", "hotdesk-canary"]


@falls_without(
    "changes that doors have made",
    Removal("keys/process.py", 'min((door.applied_mark for door in self.to("door")), default=self.mark)', "self.mark"),
    cases="step | revoke",
)
@pytest.mark.parametrize(
    "change", [{"verb": "step", "step": "two"}, {"verb": "revoke", "grant": "erp-token"}], ids=["step", "revoke"]
)
def test_a_change_is_answered_once_every_door_has_applied_it(keys: Kept, change: dict[str, object]) -> None:
    door, owner = keys.opened()
    owner.tell(n=8, desk=DESK, **change)
    told = door.until(lambda told: told.get("change") == DESK)
    owner.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        owner.until(lambda told: told.get("re") == 8)
    owner.sock.settimeout(30)
    door.tell(changed=told["mark"])
    assert owner.until(lambda told: told.get("re") == 8)["ok"] == {}


@falls_without(
    "doors that are gone make no change",
    Removal(
        "keys/process.py", "            self.lines.remove(line)\n            self.settle()\n", "            pass\n"
    ),
)
def test_a_dead_door_does_not_delay_a_change(keys: Kept) -> None:
    door, owner = keys.opened()
    owner.tell(n=8, verb="step", desk=DESK, step="two")
    door.until(lambda told: told.get("change") == DESK)
    door.sock.close()
    assert owner.until(lambda told: told.get("re") == 8)["ok"] == {}


@falls_without(
    "a door may only report its own desks",
    Removal("keys/process.py", "if get_chain(event) not in self.gated_desks:", "if False:"),
)
def test_a_door_cannot_report_a_desk_its_keeper_never_had(keys: Kept) -> None:
    door, owner = keys.opened()
    stranger = new_id()
    door.tell(event="Exchange", data=asdict(exchange(stranger)))
    assert "its own desks" in door.until(lambda told: "error" in told)["error"]["text"]
    assert owner.note(Burnt(DESK, "after"))["ok"] == {}
    assert list(read(keys.folder / FILE, stranger)) == []


@falls_without("what a door ended stays ended")
def test_a_door_cannot_end_what_belongs_to_another_desk(keys: Kept) -> None:
    door, owner = keys.opened()
    assert "ok" in owner.ask(8, verb="open", desk=OTHER, scope=json.loads(scope_json(SCOPE)), seconds=60)
    door.tell(event="Revoked", data=asdict(Revoked(DESK, "erp-token", "it came back")))
    owner.until(lambda told: told.get("event") == "Revoked")
    last = keys.line("door")
    charters = [last.until(lambda told: "charter" in told) for _ in range(2)]
    assert {told["charter"]: len(told["grants"]) for told in charters} == {DESK: 2, OTHER: 3}


@falls_without(
    "a full share is told",
    Removal("keys/process.py", 'if actor == "owner":\n                raise', "if False:\n                raise"),
)
def test_a_root_act_is_refused_once_a_desks_journal_share_is_full(keys: Kept) -> None:
    door, owner = keys.opened()
    assert keys.keys is not None
    keys.keys.share = 4096
    for _ in range(40):
        door.tell(event="Exchange", data=asdict(exchange(DESK, path="/" + "x" * 200)))
    door.until(lambda told: told.get("verb") == "full")
    told = owner.note(RootAct(DESK, "sudo", ("id",), "/"))
    assert "share" in told["error"]["text"]
    assert owner.note(RootAct(OTHER, "sudo", ("id",), "/"), 2)["ok"] == {}
    acts = [row.data for row in read(keys.folder / FILE) if row.name == "RootAct"]
    assert len(acts) == 1
    assert OTHER in acts[0]


@falls_without(
    "approved is true and nothing else",
    Removal("keys/process.py", 'if message.get("approved") is True', 'if message.get("approved")'),
)
def test_an_answer_to_a_different_rule_is_reported_to_the_door(keys: Kept) -> None:
    door, owner = keys.opened()
    owner.ask(9, verb="answer", desk=DESK, id="q1", digest="e" * 64, approved="yes", by="uid 0")
    told = door.until(lambda told: told.get("answer") == "q1")
    assert told["approved"] is False
    assert told["digest"] == "e" * 64


@falls_without("a head that is gone is missed")
def test_the_journal_is_intact_afterwards_and_truncation_is_detected(keys: Kept) -> None:
    door, owner = keys.opened()
    for what in STRANGE.values():
        door.tell(**what)
        owner.tell(**what)
    door.tell(event="Exchange", data=asdict(exchange(DESK)))
    end = time.monotonic() + 5
    while ("door", "Exchange") not in written(keys):  # it arrives on a connection of its own
        assert time.monotonic() < end
        time.sleep(0.01)
    owner.note(RootAct(DESK, "owner", ("id",), "/"), 77)
    head = parse_head(export_head(keys.folder / FILE, DESK))
    public = load_own_public(keys.folder)
    assert verify(keys.folder / FILE, public, [head]).faults == ()
    with closing(sqlite3.connect(keys.folder / FILE)) as db, db:
        db.execute("DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
    assert [fault.what for fault in verify(keys.folder / FILE, public, [head]).faults][-1:] == ["cut"]
