"""Attacks on the trust between a desk and its door: certificates, deaths of outside processes, questions to people."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from cryptography import x509

from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk
from hotdesk.errors import BriefError
from hotdesk.event import Asked
from hotdesk.host import Host, control_path
from hotdesk.linux import uids
from tests.leftovers import parent, pids, settle
from tests.security.conftest import Attack, Visit
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.secret_room import FREE, SECRETS, Room, part, placeholders
from tests.upstream import upstream

pytestmark = pytest.mark.container
A = SECRETS["token-a"]
GRANT = "token-a@a.test env=A"
RULES = ("read a.test", "read b.test", "read free.test")


@asynccontextmanager
async def alone(room: Room, *grants: str) -> AsyncIterator[tuple[Host, Desk, int]]:
    """Open a desk with its own keeper, keys and door, on the same vault; also yield its keeper's pid."""
    async with Host(room.settings, control=False) as host:
        assert isinstance(host.runtime, KeeperRuntime)
        host.runtime = room.origin(host.runtime)
        async with host.open_desk(scope=room.scope(*(grants or (GRANT,)), rules=RULES)) as desk:
            yield host, desk, host.runtime.keeper.pid


async def certificate(desk: Desk) -> str:
    return (await desk.read("/usr/local/share/ca-certificates/hotdesk.crt")).decode()


# -- certificates ------------------------------------------------------------------------------------------------------


@falls_without(
    "hosts prove their names",
    Removal(
        "http/ca.py",
        "    context.hostname_checks_common_name = False\n",
        "    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n",
    ),
)
async def test_a_host_with_an_untrusted_certificate_is_refused_with_the_reason(
    room: Room, visit: Visit, tmp_path: Path
) -> None:
    with upstream(tmp_path, "a.test") as liar:
        names = room.names | {"a.test": liar.address}
        scope = room.scope(GRANT, rules=RULES)
        async with room.host.open_desk(scope=type(scope)(scope.rules, scope.grants, names)) as desk:
            (answer,) = await visit(desk, {"host": "a.test"})
        assert answer.status == 502
        assert "not trusted" in json.loads(answer.body)["rule"]
        assert liar.seen == []


@falls_without("hosts prove their names")
async def test_a_host_with_the_certificate_of_another_is_refused_with_the_reason(room: Room, visit: Visit) -> None:
    names = room.names | {"c.test": room.up.address}
    scope = room.scope(rules=["read c.test"])
    async with room.host.open_desk(scope=type(scope)(scope.rules, (), names)) as desk:
        (answer,) = await visit(desk, {"host": "c.test"})
    assert answer.status == 502
    assert "not trusted" in json.loads(answer.body)["rule"]


KEYS = """
found = []
for top in ("/home", "/tmp", "/run", "/etc", "/usr/local", "/dev/shm", "/root", "/srv"):
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.join(folder, file)
            try:
                if os.path.isfile(path) and b"PRIVATE" + b" KEY-----" in open(path, "rb").read(8 << 20):
                    found.append(path)
            except OSError:
                pass
found += [name for name, value in os.environ.items() if "PRIVATE" + " KEY" in value]
tell(found)
"""


@falls_without(
    "the key of an authority stays outside",
    Removal(
        "keys/process.py",
        '"env": charter.build_environment(),',
        '"env": charter.build_environment() | {"CA": charter.authority.key_pem.decode().replace("\\n", " ")},',
    ),
)
async def test_no_private_key_of_an_authority_is_in_a_desk(room: Room, attack: Attack) -> None:
    assert await attack(room.desk, KEYS) == []


LEAF = """
import ssl
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT a.test:443 HTTP/1.1\\r\\nHost: a.test:443\\r\\n\\r\\n")
s.recv(4096)
context = ssl.create_default_context()
tell(ssl.DER_cert_to_PEM_cert(context.wrap_socket(s, server_hostname="a.test").getpeercert(True)))
"""


@falls_without(
    "a leaf has one name",
    Removal(
        "http/ca.py",
        "x509.SubjectAlternativeName([make_general_name(host)])",
        'x509.SubjectAlternativeName([make_general_name(host), x509.DNSName("*.test")])',
    ),
)
async def test_a_leaf_certificate_is_for_one_name_and_at_most_a_day(room: Room, attack: Attack) -> None:
    leaf = x509.load_pem_x509_certificate((await attack(room.desk, LEAF)).encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.test"]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc <= timedelta(hours=26)
    authority = x509.load_pem_x509_certificate((await certificate(room.desk)).encode())
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)


@falls_without(
    "an authority of its own for every desk",
    Removal(
        "keys/process.py",
        'else make_authority(desk, float(str(message["seconds"])))',
        "else next((one.authority for one in self.charters.values()), None) or make_authority(desk, "
        'float(str(message["seconds"])))',
    ),
)
async def test_one_desks_authority_is_not_trusted_in_another(room: Room, visit: Visit) -> None:
    ours, theirs = await certificate(room.desk), await certificate(room.neighbour)
    assert ours != theirs
    assert ours.strip() not in (await room.neighbour.read("/etc/ssl/certs/ca-certificates.crt")).decode()
    own, strange = await visit(room.neighbour, {"host": "a.test", "ca": theirs}, {"host": "a.test", "ca": ours})
    assert own.status == 200
    assert strange.status == 0
    assert "CERTIFICATE_VERIFY_FAILED" in strange.reason


STRANGER = """
import json, os, socket, sys
"x".encode("idna")
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
told = {}
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX); s.settimeout(3)
    try:
        if os.path.isdir(path):
            told[path] = os.listdir(path)
            continue
        s.connect(path)
        s.sendall(b"GET /desks HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        told[path] = s.recv(100).decode()
    except OSError as e:
        told[path] = ""
try:
    socket.create_connection(("127.0.0.1", 3128), 1)
    told["gate"] = "open"
except OSError:
    told["gate"] = ""
print(json.dumps(told))
"""


@falls_without(
    "an owner answers its own user only",
    Removal("owner/control.py", "if self.everyone or get_peer(sock)[1] in (os.geteuid(), 0):", "if True:"),
    Removal("linux/sockets.py", "os.chmod(fresh, mode)", "os.chmod(fresh, 0o666)"),
)
async def test_another_user_of_the_machine_reaches_neither_door_nor_keys(room: Room) -> None:
    control = control_path(room.settings, os.getpid())
    assert control.is_socket()
    folders = [room.settings.lib / "keys", room.settings.run / "private", room.settings.run / "desks" / room.desk.id]
    argv = [sys.executable, "-I", "-c", STRANGER, str(control), *map(str, folders)]
    done = await anyio.run_process(argv, stderr=subprocess.STDOUT, check=False)
    told = json.loads(done.stdout)
    desk = told.pop(str(folders[2]))
    assert set(told.values()) == {""}
    assert not any(name.endswith((".sock", "link")) for name in desk)


# -- deaths ------------------------------------------------------------------------------------------------------------


@no_guard("a gate without a charter admits nothing; what denies with one is the policy, attacked elsewhere")
async def test_the_policy_applies_from_the_first_program_and_during_a_pause(room: Room, visit: Visit) -> None:
    async with room.host.open_desk(scope=room.scope(GRANT, rules=RULES)) as desk:
        first = await visit(desk, {"host": "a.test"}, {"host": "issue.test"})
        await desk.pause()
        await desk.resume()
        after = await visit(desk, {"host": "a.test"}, {"host": "issue.test"})
    assert [answer.status for answer in (*first, *after)] == [200, 0, 200, 0]


BIND = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 3128))"


@falls_without(
    "a new door is told what the old one was",
    Removal(
        "keys/process.py",
        "for charter in self.charters.values():\n                line.tell(",
        "for charter in ():\n                line.tell(",
    ),
)
async def test_a_door_that_dies_comes_back_with_the_same_authority_and_grants(room: Room, visit: Visit) -> None:
    async with alone(room) as (_, desk, keeper):
        held, ca = (await placeholders(desk))["A"], await certificate(desk)
        sent = {"host": "a.test", "ca": ca, "headers": [["Authorization", f"Bearer {held}"]]}
        (before,) = await visit(desk, sent)
        door = part(keeper, uids.DOOR)
        os.kill(door, signal.SIGKILL)
        taken = await desk.run(["python3", "-c", BIND])
        (after, other) = await visit(desk, sent, {"host": "issue.test"})
        assert b"Address already in use" in taken.stderr
        assert part(keeper, uids.DOOR) != door
        assert (before.status, after.status, other.status) == (200, 200, 0)
        assert room.up.seen[-1].header("authorization") == f"Bearer {A.decode()}"


@falls_without(
    "what a door ended stays ended",
    Removal("keys/process.py", "if isinstance(event, Revoked) and event.desk in self.charters:\n", "if False:\n"),
)
async def test_a_grant_revoked_for_a_guess_is_not_restored_with_the_next_door(room: Room, visit: Visit) -> None:
    room.up.answers["/leak"] = (200, {"Content-Type": "text/plain"}, A)
    async with alone(room) as (_, desk, keeper):
        sent = {"host": "a.test", "headers": [["Authorization", f"Bearer {(await placeholders(desk))['A']}"]]}
        answers = await visit(desk, sent, {"host": FREE, "path": "/leak"}, sent)
        with anyio.fail_after(10):  # the door's report is written soon after
            while not any(row.name == "Revoked" for row in room.rows(desk)):
                await anyio.sleep(0.02)
        os.kill(part(keeper, uids.DOOR), signal.SIGKILL)
        (after,) = await visit(desk, sent)
    assert [answer.status for answer in (*answers, after)] == [200, 200, 403, 403]


@falls_without("a door without keys is shut", Removal("door/process.py", "way.shut = NO_KEYS", 'way.shut = ""'))
async def test_without_keys_every_request_is_refused_with_the_reason(room: Room, visit: Visit) -> None:
    async with alone(room) as (host, desk, keeper):
        (before,) = await visit(desk, {"host": "a.test"})
        since = len(room.up.seen)
        os.kill(part(keeper, uids.KEYS), signal.SIGKILL)
        await anyio.sleep(0.3)
        (after, plain) = await visit(desk, {"host": "a.test"}, {"host": "a.test", "scheme": "http"})
        assert before.status == 200
        assert after.status in (0, 403)
        assert "the journal cannot be written" in json.loads(plain.body)["rule"]
        assert len(room.up.seen) == since
        async with host.open_desk(scope=room.scope(GRANT, rules=RULES)) as second:
            (again,) = await visit(second, {"host": "a.test"})
            assert again.status == 200
            assert any(row.name == "Exchange" for row in room.rows(second)), "it passed, and is written down"
        (still,) = await visit(desk, {"host": "a.test"})
        assert still.status in (0, 403)


@falls_without(
    "a door without its resolver ends", Removal("door/process.py", "if self.upstreams.resolver.gone:", "if False:")
)
async def test_a_resolver_that_dies_is_replaced(room: Room, visit: Visit) -> None:
    async with alone(room) as (_, desk, keeper):
        await visit(desk, {"host": "a.test"})
        door = part(keeper, uids.DOOR)
        (resolver,) = [pid for pid in pids() if parent(pid) == door]
        os.kill(resolver, signal.SIGKILL)
        assert not settle(lambda: {"door"} if part_or_none(keeper) == door else set())
        (after,) = await visit(desk, {"host": "a.test"})
        assert after.status == 200


def part_or_none(keeper: int) -> int:
    try:
        return part(keeper, uids.DOOR)
    except AssertionError:
        return 0


# -- denials and questions ---------------------------------------------------------------------------------------------


@falls_without(
    "a denial says what else there is", Removal("door/denials.py", '"allowed": list(allowed)', '"allowed": []')
)
async def test_a_denial_names_the_rule_the_alternatives_and_how_to_ask(room: Room, visit: Visit) -> None:
    async with room.host.open_desk(scope=room.scope(GRANT, rules=RULES)) as desk:
        answers = await visit(
            desk,
            {"host": "a.test", "method": "POST", "path": "/x?token=" + "y" * 3000},
            {"host": "evil.test", "scheme": "http"},
            {"host": FREE, "headers": [["X-Note", (await placeholders(desk))["A"]]]},
        )
    for answer in answers:
        told = json.loads(answer.body)
        assert answer.status == 403
        assert set(told) == {"refused", "rule", "allowed", "ask"}
        assert len(answer.body) < 1500
        assert "read a.test" in told["allowed"]
        assert A not in answer.told


ASK = """
def ask(rule, header=True, reason="it is needed"):
    import http.client
    line = http.client.HTTPConnection("127.0.0.1", 3128, timeout=30)
    body = json.dumps({"rule": rule, "reason": reason})
    try:
        line.request("POST", "http://door.local/ask", body, {"X-Hotdesk-Ask": "1"} if header else {})
        answer = line.getresponse()
        return [answer.status, answer.read().decode()]
    except OSError as e:
        return [0, repr(e)]
"""


async def questions(host: Host, count: int) -> list[Asked]:
    """Wait until that many questions are open."""
    assert host.doors is not None
    with anyio.fail_after(15):
        while len(host.doors.open_questions()) < count:
            await anyio.sleep(0.02)
    return host.doors.open_questions()


@falls_without(
    "a header no page can send",
    Removal("door/door_local.py", "if request.headers.get(ASK_HEADER) is None:", "if False:"),
)
async def test_a_web_page_cannot_ask_in_the_desks_name(room: Room, attack: Attack) -> None:
    status, told = await attack(room.desk, ASK + "tell(ask('GET x.test/a', header=False))")
    assert (status, "X-Hotdesk-Ask" in told) == (403, True)
    assert not any(row.name == "Asked" and "x.test/a" in row.data for row in room.rows())


MANY = """
import threading
got = []
threads = [threading.Thread(target=lambda n=n: got.append(ask("GET x.test/%d" % n)[0])) for n in range(12)]
for t in threads:
    t.start()
end = time.monotonic() + 15
while len(got) < 4 and time.monotonic() < end:
    time.sleep(0.02)
refused = sorted(got)
open("/tmp/asked", "w").close()
for t in threads:
    t.join()
tell([refused, sorted(got)])
"""


@falls_without("few questions at once", Removal("door/egress.py", "if len(self.questions) >= ASKS or len", "if len"))
async def test_a_desk_has_at_most_eight_open_questions(room: Room, attack: Attack) -> None:
    assert room.host.doors is not None
    doors = room.host.doors
    async with room.host.open_desk(scope=room.scope(rules=RULES)) as desk:

        async def refuse() -> None:
            while not (await desk.run(["test", "-e", "/tmp/asked"])).ok:
                await anyio.sleep(0.1)
            for asked in await questions(room.host, 8):
                await doors.answer(asked.id, False, "test")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refuse)
            got = await attack(desk, ASK + MANY)
    assert got == [[429] * 4, [403] * 8 + [429] * 4]


@falls_without("few questions an hour", Removal("door/egress.py", " or len(self.question_times) >= ASKS_AN_HOUR:", ":"))
async def test_the_number_of_a_desks_questions_an_hour_is_limited(room: Room, attack: Attack) -> None:
    assert room.host.doors is not None
    doors = room.host.doors
    async with room.host.open_desk(scope=room.scope(rules=RULES)) as desk, anyio.create_task_group() as tasks:

        async def refuse() -> None:
            while True:
                for asked in doors.open_questions():
                    await doors.answer(asked.id, False, "test")
                await anyio.sleep(0.005)

        tasks.start_soon(refuse)
        got = await attack(desk, ASK + "tell([ask('GET x.test/%d' % n)[0] for n in range(63)])")
        tasks.cancel_scope.cancel()
    assert got == [403] * 60 + [429] * 3


@falls_without("approved is a digest", Removal("door/egress.py", " and secrets.compare_digest(expected, mark):", ":"))
async def test_an_approval_admits_exactly_the_requested_rule_once(room: Room, attack: Attack, visit: Visit) -> None:
    assert room.host.doors is not None
    doors = room.host.doors
    async with room.host.open_desk(scope=room.scope(rules=["read a.test"])) as desk:
        told: list[object] = []

        async def ask() -> None:
            told.extend(await attack(desk, ASK + "tell(ask('GET free.test/one'))"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            (asked,) = await questions(room.host, 1)
            with pytest.raises(BriefError):
                await doors.answer(asked.id, True, "test", digest="0" * 64)
            keys = await doors.meet()
            await keys.ask("answer", desk.id, id=asked.id, digest="0" * 64, approved=True, by="test")
            await anyio.sleep(0.3)
            assert told == [], "an approval of something else opened it"
            await keys.ask("answer", desk.id, id=asked.id, digest=asked.digest, approved=True, by="test")
        one, two, post = await visit(
            desk,
            {"host": FREE, "path": "/one"},
            {"host": FREE, "path": "/two"},
            {"host": FREE, "path": "/one", "method": "POST"},
        )
    assert told[0] == 200
    assert [one.status, two.status, post.status] == [200, 403, 403]
