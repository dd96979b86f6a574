"""Tests of the self-test: a good desk passes and is handed over; with any guard removed from the source, none is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import hotdesk
from hotdesk.brief import Scope, parse_rule
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.door.selftest import NAMES
from hotdesk.drive import journal
from hotdesk.event import Event, Exchange, Proven
from hotdesk.host import Host
from hotdesk.linux import private_files, uids

pytestmark = pytest.mark.container

SOURCE = Path(hotdesk.__file__).parents[1]
SCOPE = Scope(rules=(parse_rule("erp.test/data/*"),))
ALL = " ".join(NAMES)
OPEN = """
import json, sys
from pathlib import Path
import anyio
from hotdesk.linux import syscalls as kernel
kernel.unshare(kernel.CLONE_NEWNET)  # whatever a broken desk sends stays on this machine
kernel.raise_loopback()
from hotdesk.brief import Scope, parse_rule
from hotdesk.config import Config
from hotdesk.errors import DoorError
from hotdesk.host import Host

async def main():
    run, lib, images = map(Path, sys.argv[1:])
    async with Host(Config(run=run, lib=lib, images=images), control=False) as host:
        try:
            desk = await host.open(scope=Scope(rules=(parse_rule("erp.test/data/*"),)))
            print(json.dumps({"released": desk.id}))
        except DoorError as e:
            print(json.dumps({"refused": str(e), "open": list(host.runtime.desks), "held": len(host.doors.admitted)}))

anyio.run(main)
"""


@dataclass(frozen=True)
class Loss:
    """A guard to remove: edits of the source, and the canaries that must fail, and no others."""

    red: str
    edits: tuple[tuple[str, str, str], ...]


PROOF = ("desk/wall/container/prove.py", "while wrong := list_flaws(", "while wrong := [] and list_flaws(")
"""The keeper itself refuses a desk without a network of its own; without this check the canaries get to see one."""
REACHABLE = '        if scheme == "https" and self.tunnel(host, port):'
LOOPBACK = "    syscalls.raise_loopback()\n"
UNSWAPPED = 'not use.place.swap:\n        return b"Bearer " + '

SAMPLE = ("no route", "no CONNECT to loopback", "a secret put in")
QUICK = {
    "no route": Loss(
        "raw-ip dns ipv6 udp-443 metadata another-desk",
        (
            (
                "desk/room/room.py",
                LOOPBACK,
                LOOPBACK + '    for version in ("-4", "-6"):\n'
                '        argv = ["ip", version, "route", "add", "local", "default", "dev", "lo"]\n'
                '        __import__("subprocess").run(argv)\n',
            ),
        ),
    ),
    "a network of its own": Loss(
        "metadata host-loopback host-sockets connect-loopback connect-unlisted another-sni another-host swapped "
        "scrubbed",
        (("desk/wall/container/bundle.py", '                {"type": "network", "path": room.netns},\n', ""), PROOF),
    ),
    "no CONNECT to loopback": Loss(
        "connect-loopback", (("door/policy/policy.py", REACHABLE, f'{REACHABLE[:-1]} or host == "127.0.0.1":'),)
    ),
    "the name in the handshake": Loss(
        "another-sni",
        (("door/proxy.py", "return None if name is not None and name.lower()", "return None if True or name.lower()"),),
    ),
    "a secret put in": Loss(
        "swapped scrubbed",
        (("door/secrets/inject.py", f"{UNSWAPPED}secret\n", f"{UNSWAPPED}grant.placeholder\n"),),
    ),
    "a secret taken out": Loss(
        "scrubbed",
        (("door/secrets/response.py", "self.active = granted or bool(scrubber.spelt)", "self.active = False"),),
    ),
    "a word of the canaries": Loss(ALL, (("../hotdesk_guest/canaries.py", "sys.stdout.write(", "sys.stderr.write("),)),
}
"""Guards that a normal run of the tests can afford to remove."""
SLOW = {
    "no resolver": Loss(
        "dns",
        (
            (
                "desk/room/room.py",
                LOOPBACK,
                LOOPBACK + "    global resolver\n    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                '    resolver.bind(("127.0.0.1", 53))\n',
            ),
        ),
    ),
    "no names": Loss(
        "dns", (("desk/room/identity.py", "\\n::1 localhost\\n", "\\n::1 localhost\\n192.0.2.7 example.com\\n"),)
    ),
    "only what is listed": Loss(
        "metadata connect-loopback connect-unlisted", (("door/policy/policy.py", REACHABLE, "        if host:"),)
    ),
    "no CONNECT to metadata": Loss(
        "metadata", (("door/policy/policy.py", REACHABLE, f'{REACHABLE[:-1]} or host == "169.254.169.254":'),)
    ),
    "the Host header": Loss(
        "another-host",
        (("door/policy/target.py", "if named != (authority.host, authority.port) and", "if False and"),),
    ),
    "a secret taken out of a head": Loss(
        "scrubbed", (("door/secrets/response.py", "return self.stream.scrub_headers(fields)", "return fields"),)
    ),
    "a secret taken out in base64": Loss(
        "scrubbed",
        (("door/secrets/scrub.py", "        found |= list_base64_middles(value, before)\n", "        pass\n"),),
    ),
    "the door's certificate": Loss(
        "another-host swapped scrubbed",
        (("desk/room/identity.py", 'believed + b"\\n" + ca.encode()', 'believed + b"\\n"'),),
    ),
    "the canaries' number": Loss(
        ALL, (("../hotdesk_guest/canaries.py", '"nonce":"{nonce}"', '"nonce":"{nonce[1:]}"'),)
    ),
}


@pytest.fixture(autouse=True)
def _keys(settings: Config) -> None:
    private_files.make_folder(settings.lib / "keys", uids.KEYS)


def events(settings: Config, desk: str | None = None) -> list[Event]:
    return [row.read_event() for row in journal.read(settings.lib / "keys" / journal.FILE, desk)]


def proven(settings: Config, desk: str | None = None) -> Proven:
    return [event for event in events(settings, desk) if isinstance(event, Proven)][-1]


async def fetch(desk: Desk, url: str) -> str:
    done = await desk.run(["curl", "-sS", "-m", "10", url])
    return done.text + done.stderr.decode()


async def test_a_good_desk_is_handed_over_with_every_canary_recorded(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk(scope=SCOPE) as desk:
        assert proven(settings, desk.id) == Proven(desk.id, NAMES, ())


async def test_after_the_hand_over_nothing_of_the_canary_is_left(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk(scope=SCOPE) as desk:
        assert "403" in await fetch(desk, "https://echo.door.local/canary")
        told = json.loads(await fetch(desk, "http://door.local/policy"))
        assert (told["allowed"], told["grants"]) == (["read erp.test/data/*"], [])
        went = [each.grants for each in events(settings, desk.id) if isinstance(each, Exchange) and each.grants]
        assert went == [("hotdesk-canary in header authorization",)]


async def test_ceilings_and_rules_do_not_affect_the_self_tests_own_host(settings: Config) -> None:
    narrow = replace(settings, ceiling=("read erp.test", "deny *.door.local"))
    scope = Scope(rules=(*SCOPE.rules, parse_rule("deny *.door.local"), parse_rule("deny 127.0.0.0/8")))
    async with Host(narrow, control=False) as host, host.open_desk(scope=scope) as desk:
        assert proven(settings, desk.id).failed == ()
        assert json.loads(await fetch(desk, "http://door.local/policy"))["allowed"] == ["read erp.test/data/*"]


async def test_a_tested_desk_is_handed_over_even_if_the_operator_configures_names(settings: Config) -> None:
    named = replace(settings, names={"intern.test": "127.0.0.1:9"})
    async with Host(named, control=False) as host:
        host.keep_ready(Spec(), 1, proven=True)
        await host.pool.wait_until_full()
        async with host.open_desk(scope=SCOPE) as desk:
            assert json.loads(await fetch(desk, "http://door.local/policy"))["allowed"] == ["read erp.test/data/*"]


def mutate(source: Path, lost: Loss) -> None:
    """Remove a guard from a copy of the source; the bytecode of untouched files stays valid."""
    shutil.copytree(SOURCE, source)
    for name, old, new in lost.edits:
        file = source / "hotdesk" / name
        text = file.read_text()
        assert text.count(old) == 1, f"{name} no longer has {old!r} once"
        file.write_text(text.replace(old, new))


def see_it_burn(settings: Config, source: Path, lost: Loss) -> None:
    """Check that a desk without a guard is never handed over, and that the journal names the canaries that noticed."""
    try:
        mutate(source, lost)
        argv = [sys.executable, "-c", OPEN, str(settings.run), str(settings.lib), str(settings.images)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(source)}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60, cwd="/")
    finally:
        shutil.rmtree(source, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    noted = proven(settings)
    assert set(noted.failed) == set(lost.red.split())
    assert set(noted.held) == set(NAMES) - set(noted.failed)
    assert (told.get("open"), told.get("held")) == ([], 0), told
    assert f"({', '.join(noted.failed)})" in told["refused"]
    assert not list((settings.run / "desks").glob("*"))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what in SAMPLE else pytest.mark.long) for what in QUICK]
)
def test_a_desk_without_a_guard_is_never_handed_over(settings: Config, home: Path, what: str) -> None:
    see_it_burn(settings, home / "mutant", QUICK[what])


@pytest.mark.long
@pytest.mark.parametrize("what", SLOW)
def test_a_desk_without_any_one_guard_is_never_handed_over(settings: Config, home: Path, what: str) -> None:
    see_it_burn(settings, home / "mutant", SLOW[what])
