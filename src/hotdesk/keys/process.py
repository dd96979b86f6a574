"""The keys process: connections from its keeper, scopes and events from its owner, events from doors; one commit a
turn.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hotdesk.brief import compute_digest, grant_text, parse_rule, parse_scope, rule_text
from hotdesk.brief.data import PROXY_PASSWORD
from hotdesk.door import canary
from hotdesk.door.policy.policy import format_rules
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.outbox import take_in
from hotdesk.drive.signing import PUBLIC, Signer, load_signer
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.event import (
    Alarm,
    Answered,
    Asked,
    Burnt,
    Certified,
    DeskEvent,
    Event,
    Exchange,
    HandedBack,
    ImageSigned,
    JobBurnt,
    JobEvent,
    JobPaused,
    Opened,
    Proven,
    RequestAdmitted,
    Rescoped,
    Revoked,
    RootAct,
    RootActEnded,
    SwarmCertified,
    SwarmEvent,
    TookOver,
    Used,
    WallProven,
    get_chain,
    to_json,
)
from hotdesk.event.desk import KEEPER
from hotdesk.keys import token_command
from hotdesk.keys.certify import certify
from hotdesk.keys.certify_swarm import certify_swarm
from hotdesk.keys.charter import Charter, grant_canary, make_authority
from hotdesk.keys.node_proof import check_proof
from hotdesk.keys.parse import as_desk, as_list, decode_secret, parse_event
from hotdesk.keys.peer import READ, REASON, Peer
from hotdesk.keys.sealed_values import rehearse_sealing
from hotdesk.keys.secret_scan import find_secrets
from hotdesk.keys.token_command import TokenCommands
from hotdesk.keys.values import SecretValues
from hotdesk.linux import bpf, jail
from hotdesk.vault import Secret, compute_totp_code
from hotdesk.vault.store import open_sealed, seal
from hotdesk.walls import WallProof

_MAX_GATED_DESKS = 16384
NOTHING: Mapping[str, object] = {}
_MOST_ALLOWED = 100
"""Maximum number of rules that may be added to a desk's scope."""
NODE = "node"
"""The actor of events that were fetched from a node."""
LATE_S = 2.0
"""Seconds after a self-test in which the door's statement that an exchange belonged to it is accepted."""
SHARE = 64 << 20
"""Maximum bytes of events for one desk or job, so that it cannot fill the host's journal."""
HEARD: dict[str, tuple[type[Event], ...]] = {
    "owner": (
        *(RootAct, RootActEnded, Proven, Burnt, Used, TookOver, HandedBack),
        *(kind for kind in get_args(JobEvent) if kind not in (Certified, ImageSigned)),
        *(kind for kind in get_args(SwarmEvent) if kind is not SwarmCertified),
    ),
    "door": (RequestAdmitted, Exchange, Alarm, Revoked, Asked, Answered),
}
"""The events that each kind of sender may record. Keys record approvals at the door and certificates themselves.

Images are signed by root's own command: otherwise a process that opens desks could have any image signed.
"""


class KeysProcess:
    """Serves one keeper and its owner until they end."""

    def __init__(self, keeper: socket.socket, folder: Path, tells: socket.socket, authority: str = "") -> None:
        self.authority = authority
        """The certificate of a cluster's authority, in PEM, which signed proofs of nodes are checked against."""
        self.keeper = keeper
        self.folder = folder
        self.commands = TokenCommands(tells)
        self.values = SecretValues(folder, self.commands, authority)
        self.journal = Journal(folder / FILE, load_signer(folder))
        self.lines: list[Peer] = []
        self.charters: dict[str, Charter] = {}
        self.gated_desks: dict[str, WallProof | None] = {}
        """The latest desks that the keeper opened gates for, with its proof of each. Doors may report on these only."""
        self.share = SHARE
        self.shares: dict[str, int] = {}
        self.mark = 0
        """The number of the last change sent to doors."""
        self.changes: list[tuple[int, Peer, object]] = []
        """Changes that not every door has confirmed: mark, waiting connection, number of the request."""
        self.confirmed = 0
        """The number of the last event that the server of this node has, for doors that wait for that."""
        self.answers: list[Callable[[str | None], None]] = []
        """Callbacks that send replies once this turn's events are on disk; the argument is `None`, or the failure."""
        self.over = False

    def serve(self) -> None:
        """Work until the keeper closes its connection."""
        self.keeper.setblocking(False)
        while not self.over:
            poll = select.poll()
            poll.register(self.keeper, select.POLLIN)
            poll.register(self.commands.sock, select.POLLIN)
            for line in self.lines:
                poll.register(line.sock, select.POLLIN | (select.POLLOUT if line.out else 0))
            ready = {fd for fd, _ in poll.poll()}
            take_in(self.journal, self.folder)  # events of the outbox are older, and are written first
            if self.keeper.fileno() in ready:
                self.meet()
            if self.commands.sock.fileno() in ready and not self.commands.hear():
                self.over = True
            for line in self.lines:
                if line.sock.fileno() in ready:
                    for message in line.hear():
                        self.take(line, message)
            self.commit()
            self.settle()
            self.flush()
        with suppress(HotdeskError):  # a journal that cannot be written may be the reason to end
            for desk in list(self.charters):
                self.close(desk, "the process that opened it ended")
        self.journal.close()

    def meet(self) -> None:
        data, fds, _, _ = socket.recv_fds(self.keeper, READ, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            self.over = True
            return
        message = json.loads(data)
        if "desk" in message:
            proof = message.get("proof")
            self.take_proof(as_desk(message["desk"]), None if proof is None else WallProof(**proof))
            return
        actor = message["line"]
        line = Peer(socket.socket(fileno=fds[0]), actor)
        self.lines.append(line)
        if actor == "door":
            for charter in self.charters.values():
                line.tell(**charter.build_message())
            line.tell(confirmed=self.confirmed)
            line.tell(ready=True)
            line.applied_mark = self.mark

    def take_proof(self, desk: str, proof: WallProof | None) -> None:
        """Store the keeper's proof of a desk. It comes over the keeper's own connection, which no other process has."""
        self.gated_desks[desk] = proof
        while len(self.gated_desks) > _MAX_GATED_DESKS:
            del self.gated_desks[next(iter(self.gated_desks))]
        if desk in self.charters:
            self.note_wall(desk)

    def take_node_proof(self, desk: str, message: Mapping[str, object]) -> None:
        """Check and store the proof of a node's keeper. A desk's owner passes it on, but cannot forge it."""
        proof = check_proof(message, desk, self.authority, datetime.now(UTC))
        self.take_proof(desk, proof)
        self.journal.add(desk, KEEPER, WallProven(desk, **asdict(proof)))

    def note_wall(self, desk: str) -> None:
        """Record the keeper's proof of a desk with a door. For other desks, the keeper's own `Opened` event has it."""
        if (proof := self.gated_desks.get(desk)) is not None:
            self.journal.add(desk, KEEPER, WallProven(desk, **asdict(proof)))

    def flush(self) -> None:
        for line in self.lines:
            line.flush()
        for line in [line for line in self.lines if line.cut]:
            line.sock.close()
            self.lines.remove(line)
            self.settle()

    def commit(self) -> None:
        """Write this turn's events to disk, then send the waiting replies. If the write fails, this process ends."""
        why = None
        try:
            self.journal.commit()
        except Exception as e:  # noqa: BLE001 - the waiting callers must be told, whatever happened
            why = str(e) if isinstance(e, HotdeskError) else f"the journal cannot be written: {e!r}"
            self.journal.discard()
            self.over = True  # the doors lose their charters with this process; the next desk starts another
        for answer in self.answers:
            answer(why)
        self.answers.clear()

    def to(self, actor: str) -> list[Peer]:
        return [line for line in self.lines if line.actor == actor]

    # -- messages ---------------------------------------------------------------------------------------------

    def take(self, line: Peer, message: dict[str, object]) -> None:
        """Handle one message; an error is sent as its reply."""
        number = message.get("n")
        try:
            if line.actor == "owner":
                self.handle_owner_message(line, message)
            else:
                self.handle_door_message(line, message)
        except Exception as e:  # noqa: BLE001 - a rim: no request of one desk's may end the others
            error = e if isinstance(e, HotdeskError) else HostError(f"malformed request to the keys process: {e!r}")
            failure = {"code": error.code, "text": str(error)[:REASON]}
            line.tell(re=number if isinstance(number, int) else None, error=failure)

    def handle_owner_message(self, line: Peer, message: dict[str, object]) -> None:
        number, desk = message.get("n"), as_desk(message.get("desk", ""))
        match message.get("verb"):
            case "note":
                for event in [parse_event(each) for each in as_list(message["events"])]:
                    self.enter("owner", event)
                    if isinstance(event, Proven):
                        self.end_canary(event.desk)
                self.answer_committed(line, number)
            case "certify":
                signed = certify(self.journal, message["claim"], self.gated_desks)
                self.answer_committed(line, number, {"certificate": signed.decode()})
            case "certify swarm":
                signed = certify_swarm(self.journal, as_desk(message["swarm"]), self.gated_desks)
                self.answer_committed(line, number, {"certificate": signed.decode()})
            case "opened on a node":
                self.take_node_proof(desk, message)
                self.answer_committed(line, number)
            case "sealing":
                line.tell(
                    re=number,
                    ok={**self.values.sealing.sign(self.journal.signer), "key": (self.folder / PUBLIC).read_text()},
                )
            case "seal":
                sealed = self.values.seal(parse_scope(message["scope"]), message)
                line.tell(re=number, ok={"sealed": base64.b64encode(sealed).decode()})
            case "pulled":
                for each in as_list(message["events"]):
                    self.enter_pulled(each)
                self.answer_committed(line, number)
            case "scan":
                line.tell(re=number, ok={"secrets": self.find_secrets(message)})
            case "ready":
                line.tell(re=number, ok={})
            case "position":
                self.answer_number(line, number)
            case "confirmed":
                self.confirmed = max(self.confirmed, int(str(message["number"])))
                for door in self.to("door"):
                    door.tell(confirmed=self.confirmed)
                line.tell(re=number, ok={})
            case "unlock":
                self.values.root = Secret(decode_secret(str(message["root"])))
                line.tell(re=number, ok={})
            case "open":
                self.open(line, desk, message)
            case "try":
                self.values.try_grants(
                    parse_scope(message["scope"]).grants, lambda tried: line.tell(re=number, ok={"tried": tried})
                )
            case "close":
                self.close(desk, str(message.get("why", "")))
                self.answer_committed(line, number)
            case "step" | "revoke":
                self.change(desk, message)
                self.changes.append((self.mark, line, number))
            case "scope":
                self.rescope(desk, message)
                self.changes.append((self.mark, line, number))
            case "allow":
                self.allow(desk, message)
                self.changes.append((self.mark, line, number))
            case "answer":
                self.approve(desk, message)
                self.answer_committed(line, number)
            case _:
                raise BriefError(f"unknown request {str(message.get('verb'))[:40]!r} to the keys process")

    def handle_door_message(self, line: Peer, message: dict[str, object]) -> None:
        if "event" in message:
            event = parse_event(message)
            if get_chain(event) not in self.gated_desks:
                raise BriefError("a door (egress proxy) may only report on its own desks")
            if isinstance(event, Exchange):
                event = replace(event, test=self.is_proving(event.desk, ended=event.test))
            self.enter("door", event)
            if isinstance(event, RequestAdmitted):
                self.answer_number(line, message["n"])
            if isinstance(event, Revoked) and event.desk in self.charters:
                self.charters[event.desk].drop(event.grant)
            if isinstance(event, Asked | Answered | Alarm | Revoked):
                self.tell_owner(event)
        elif "changed" in message:
            line.applied_mark = max(line.applied_mark, int(str(message["changed"])))
        elif "used" in message:
            desks = [as_desk(each) for each in as_list(message["used"])]
            for owner in self.to("owner")[:1]:
                owner.tell(event="used", desks=desks)
        elif "print" in message:
            self.print(line, as_desk(message["desk"]), str(message["print"]), message["n"])

    def tell_owner(self, event: Event) -> None:
        """Send the owner an event that it should know at once."""
        for owner in self.to("owner")[:1]:
            owner.tell(event=type(event).__name__, data=json.loads(to_json(event)))

    def answer_committed(self, line: Peer, number: object, body: Mapping[str, object] = NOTHING) -> None:
        """Send a reply once this turn's events are on disk."""

        def answer(why: str | None) -> None:
            failed = {"error": {"code": HostError.code, "text": why}}
            line.tell(re=number, **({"ok": body} if why is None else failed))

        self.answers.append(answer)

    def answer_number(self, line: Peer, number: object) -> None:
        """Send the number of the last event once this turn's events are on disk, and tell the owner of it."""

        def answer(why: str | None) -> None:
            if why is not None:
                line.tell(re=number, error={"code": HostError.code, "text": why})
                return
            last = self.journal.read_last()
            position = last.id if last is not None else 0
            line.tell(re=number, ok={"number": position})
            for owner in self.to("owner")[:1] if position > self.confirmed else ():
                owner.tell(event="awaited", number=position)

        self.answers.append(answer)

    # -- events -----------------------------------------------------------------------------------------------

    def enter(self, actor: str, event: Event) -> None:
        """Record an event if the sender may send it, within its desk's share."""
        if not isinstance(event, HEARD[actor]) or (isinstance(event, Answered) and event.answer != "expired"):
            raise BriefError(f"the {actor} may not record an event of type {type(event).__name__}")
        chain = as_desk(get_chain(event))
        self.shares[chain] = self.shares.get(chain, 0) + len(to_json(event))
        if self.shares[chain] > self.share:
            self.change(chain, {"verb": "full"})
            if actor == "owner":
                raise HostError(
                    f"desk {chain} has used up its share of the journal ({self.share / (1 << 20):g} MiB), so what it "
                    "does can no longer be recorded and is refused; open another desk"
                )
            return
        self.journal.add(chain, actor, event)
        if isinstance(event, JobPaused | JobBurnt):
            self.shares.pop(chain)
            self.answers.append(lambda why: self.journal.forget(chain))

    def enter_pulled(self, message: object) -> None:
        """Record an event that a node reported of its desks, as passed on by the owner. It does not prove a wall."""
        at = message.get("at") if isinstance(message, dict) else None
        event = parse_event(message)
        if type(at) is not int or not isinstance(event, get_args(DeskEvent)):
            raise BriefError("a node may only report events of its desks")
        self.journal.add(as_desk(get_chain(event)), NODE, event, at)

    # -- charters ---------------------------------------------------------------------------------------------

    def open(self, line: Peer, desk: str, message: dict[str, object]) -> None:
        """Make a desk's charter, send it to the doors, and give the owner what the desk may know."""
        scope = parse_scope(message["scope"])
        ready = self.charters.get(desk)
        if ready is not None and not ready.is_ready():
            raise BriefError(f"desk {desk} already has a door")
        canary.check_free(scope)
        granted = self.values.load_grants(scope, message)
        tried, secret = grant_canary()
        ceiling = [str(text) for text in as_list(message.get("ceiling", []))]
        signing = ready.authority if ready is not None else make_authority(desk, float(str(message["seconds"])))
        charter = Charter(
            desk, scope, signing, granted if ready is not None else [*granted, tried], ceiling,
            float(str(message.get("approval_seconds", 120.0))), self.journal.signer,
            proxy_password=self.values.read_brought(message).get(PROXY_PASSWORD, b""),
            sync=message.get("sync") is True,
        )  # fmt: skip
        grants = tuple(map(grant_text, scope.grants))
        by, image = str(message.get("by", "")), str(message.get("image", ""))
        self.journal.add(desk, "keys", Opened(desk, compute_digest(scope), format_rules(scope), grants, by, image))
        self.note_wall(desk)  # the proof of a desk of the pool is known already
        reply = {
            "ca": charter.authority.certificate_pem.decode(),
            "env": charter.build_environment(),
            "canary": asdict(secret),
        }

        def answer(why: str | None) -> None:
            if why is not None:
                line.tell(re=message.get("n"), error={"code": HostError.code, "text": why})
                return
            self.charters[desk] = charter
            for door in self.to("door"):
                door.tell(**charter.build_message())
            line.tell(re=message.get("n"), ok=reply)

        self.answers.append(answer)

    def rescope(self, desk: str, message: dict[str, object]) -> None:
        """Replace a desk's scope; its doors let nothing pass under the old one."""
        charter = self.charters.get(desk)
        if charter is None:
            raise BriefError(
                f"desk {desk} was opened without a door (network access) and cannot get one now; open another desk"
            )
        scope = parse_scope(message["scope"])
        canary.check_free(scope)
        tried = [one for one in charter.granted if one.grant == canary.GRANT]
        granted = self.values.load_grants(scope, message, charter.scopes + 1)
        charter.scope, charter.granted, charter.scopes = scope, [*granted, *tried], charter.scopes + 1
        charter.allowed = ()
        charter.proxy_password = self.values.read_brought(message).get(PROXY_PASSWORD, b"")
        grants = tuple(map(grant_text, scope.grants))
        self.journal.add(
            desk, "keys", Rescoped(desk, compute_digest(scope), format_rules(scope), grants, str(message["by"]))
        )
        self.mark += 1
        for door in self.to("door"):
            door.tell(change=desk, mark=self.mark, verb="scope", charter=charter.build_message())

    def allow(self, desk: str, message: dict[str, object]) -> None:
        """Add rules to a desk's scope, as after an approved question; no connection is cut."""
        charter = self.charters.get(desk)
        if charter is None:
            raise BriefError(
                f"desk {desk} was opened without a door (network access) and cannot get one now; open another desk"
            )
        rules = tuple(rule_text(parse_rule(str(each))) for each in as_list(message["rules"]))
        allowed = tuple(dict.fromkeys((*charter.allowed, *rules)))
        if len(allowed) > _MOST_ALLOWED:
            raise BriefError(
                f"at most {_MOST_ALLOWED} egress rules can be added to the open desk {desk}; open another desk with "
                "all of them in its brief"
            )
        charter.allowed = allowed
        texts, grants = (*format_rules(charter.scope), *charter.allowed), tuple(map(grant_text, charter.scope.grants))
        event = Rescoped(desk, compute_digest(charter.scope), texts, grants, str(message["by"]), allowed)
        self.journal.add(desk, "keys", event)
        self.mark += 1
        for door in self.to("door"):
            door.tell(change=desk, mark=self.mark, verb="allow", rules=list(rules))

    def find_secrets(self, message: Mapping[str, object]) -> tuple[str, ...]:
        """Return the names of secrets, of live desks and of a scope, that occur in some bytes. Never a value."""
        granted = [one for charter in self.charters.values() for one in charter.granted]
        granted += self.values.load_grants(parse_scope(message["scope"]), message)
        return find_secrets(base64.b64decode(str(message["data"])), granted)

    def close(self, desk: str, why: str) -> None:
        if self.charters.pop(desk, None) is not None or desk in self.shares:
            if not self.journal.has(desk, Burnt):  # the keeper records the end of a desk that had no scope
                self.journal.add(desk, "keys", Burnt(desk, why))
            for door in self.to("door"):
                door.tell(drop=desk)
            self.shares.pop(desk, None)
            self.journal.commit()
            self.journal.forget(desk)

    def change(self, desk: str, message: dict[str, object]) -> None:
        """Send the doors another step or the end of a grant; a door that starts later gets it with the charter."""
        charter = self.charters.get(desk)
        if charter is not None and message["verb"] == "step":
            charter.step = str(message["step"])
        if charter is not None and message["verb"] == "revoke":
            gone = str(message.get("grant", ""))
            charter.drop(gone)
            self.journal.add(desk, "keys", Revoked(desk, gone or "all", str(message.get("why", "asked"))))
        fields = {key: value for key, value in message.items() if key in ("verb", "step", "grant")}
        fields["identities"] = charter.sign_identities() if charter is not None else {}
        self.mark += 1
        for door in self.to("door"):
            door.tell(change=desk, mark=self.mark, **fields)

    def settle(self) -> None:
        """Reply for changes that every door has confirmed. A door that is gone lets nothing through."""
        done = min((door.applied_mark for door in self.to("door")), default=self.mark)
        for _, line, number in [change for change in self.changes if change[0] <= done]:
            line.tell(re=number, ok={})
        self.changes = [change for change in self.changes if change[0] > done]

    def is_proving(self, desk: str, *, ended: bool) -> bool:
        """Return whether a desk's door is being tested, before the desk is handed over.

        A door reports an exchange when it has ended, so one of the test may be reported shortly after the test.
        """
        charter = self.charters.get(desk)
        if charter is None:
            return False
        is_late = ended and time.monotonic() < charter.proven_at + LATE_S
        return is_late or any(one.grant == canary.GRANT for one in charter.granted)

    def end_canary(self, desk: str) -> None:
        """End the canary of a desk's self-test."""
        if charter := self.charters.get(desk):
            charter.granted = [one for one in charter.granted if one.grant != canary.GRANT]
            charter.proven_at = time.monotonic()
        for door in self.to("door"):
            door.tell(change=desk, verb="proven")

    def approve(self, desk: str, message: dict[str, object]) -> None:
        """Record an answer and pass it to the doors. It applies once, to the question with that digest."""
        answer: Literal["approved", "refused"] = "approved" if message.get("approved") is True else "refused"
        note = Answered(desk, str(message["id"]), str(message["digest"]), answer, str(message["by"]))
        self.journal.add(desk, "owner", note)

        def tell(why: str | None) -> None:
            for door in self.to("door"):
                door.tell(answer=note.id, desk=desk, digest=note.digest, approved=why is None and answer == "approved")

        self.answers.append(tell)

    def print(self, line: Peer, desk: str, one: str, number: object) -> None:
        """Make a value for a door: a one-time code, a token, or the output of a command."""
        grants = [each for each in self.charters[desk].granted if each.id == one]
        if not grants or type(number) is not int:
            raise BriefError(
                f"desk {desk} has no active grant of this secret: the grant was revoked, or belongs to another step"
            )

        def deliver(value: bytes | HostError) -> None:
            if isinstance(value, HostError):
                line.tell(re=number, error={"code": value.code, "text": str(value)})
            else:
                line.tell(re=number, ok={"value": base64.b64encode(value).decode()})

        self.values.make(grants[0], self.charters[desk].scope, desk, deliver)


def rehearse() -> None:
    """Do once what will be done in confinement, where nothing can be imported."""
    make_authority("rehearsal", 0.0)
    root = Secret(AESGCM.generate_key(256))
    open_sealed(root, seal(root, b"rehearsal", b""), b"")
    Signer(Ed25519PrivateKey.generate()).sign(b"rehearsal")
    compute_totp_code(b"0123456789", 0.0)
    rehearse_sealing()


def main() -> None:
    settings = json.loads(sys.argv[3])
    keeper = socket.socket(fileno=3)
    keeper.set_inheritable(False)
    tells = token_command.start(settings["uid"])
    rehearse()
    folder = jail.enter(Path(settings["root"]), settings["uid"], bpf.KEYS, trusting=True)
    KeysProcess(keeper, folder, tells, settings.get("authority", "")).serve()
    os._exit(0)  # everything is on disk, and the interpreter's own cleanup would delay the keeper
