"""Tests of judging canary reports: parsed strictly, and anything missing counts against the desk."""

from __future__ import annotations

import errno
import json
import socket
from dataclasses import replace

import pytest

from hotdesk.brief import Rule, Scope
from hotdesk.desk.seam import Done
from hotdesk.door import selftest
from hotdesk.door.canary import Canary
from hotdesk.door.selftest import FAR, LOCAL, NAMES, CanaryResult
from hotdesk.errors import DoorError

DIGEST = "d" * 64
NEAR = selftest.list_refusable(Scope(), 4711, "nonce")
CLEAN = (
    b"HTTP/1.1 200 \r\nX-Canary: hotdesk-removed\r\nX-Canary-Digest: " + DIGEST.encode() + b"\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n10\r\nhotdesk-removed\n\r\n10\r\nhotdesk-removed\n\r\n0\r\n\r\n"
)
GOOD = CanaryResult(
    knocks=(errno.ENETUNREACH,) * len(FAR),
    local=(*(errno.ECONNREFUSED,) * len(LOCAL), 0),
    answers=(200, 200, *(403,) * len(NEAR)),
    sni=b"SSLEOFError(8, '[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred')",
    echo=CLEAN,
    host=b"HTTP/1.1 400 Bad Request\r\n\r\n",
)


def failed(told: CanaryResult | None, caught: frozenset[str] = frozenset()) -> set[str]:
    return set(selftest.judge(told, FAR, NEAR, DIGEST, caught).failed)


def met(where: str, number: int) -> CanaryResult:
    at = [each for _, each in FAR].index(where)
    return replace(GOOD, knocks=(*GOOD.knocks[:at], number, *GOOD.knocks[at + 1 :]))


def called(at: int, number: int) -> CanaryResult:
    return replace(GOOD, local=(*GOOD.local[:at], number, *GOOD.local[at + 1 :]))


def answered(name: str, number: int) -> CanaryResult:
    return replace(GOOD, answers=(200, 200, *(number if one == name else 403 for one, _ in NEAR)))


def test_a_sound_desk_passes_every_canary() -> None:
    report = selftest.judge(GOOD, FAR, NEAR, DIGEST, frozenset())
    assert report == selftest.CanaryReport(NAMES, ())
    selftest.require(report)


def test_silence_counts_against_every_canary() -> None:
    report = selftest.judge(None, FAR, NEAR, DIGEST, frozenset())
    assert report == selftest.CanaryReport((), NAMES)
    with pytest.raises(DoorError, match=r"raw-ip, dns, .*scrubbed") as e:
        selftest.require(report)
    assert e.value.code == "door"


@pytest.mark.parametrize(
    ("told", "red"),
    [
        (met("tcp|192.0.2.1|443", errno.EINPROGRESS), "raw-ip"),
        (met("tcp|192.0.2.1|80", 0), "raw-ip"),
        (met("tcp|192.0.2.1|80", errno.ECONNREFUSED), "raw-ip"),
        (met("udp|192.0.2.53|53", 0), "dns"),
        (met("udp|2001:db8::1|443", 0), "ipv6"),
        (met("udp|192.0.2.1|443", 0), "udp-443"),
        (met("tcp|169.254.169.254|80", errno.EINPROGRESS), "metadata"),
        (met("tcp|10.0.0.1|3128", errno.EINPROGRESS), "another-desk"),
        (called(0, 0), "host-loopback"),
        (called(1, 0), "host-sockets"),
        (called(2, 0), "dns"),
        (called(3, -1), "dns"),
        (called(4, 1), "dns"),
        (called(4, -1), "dns"),
        (answered("connect-loopback", 200), "connect-loopback"),
        (answered("connect-loopback", 502), "connect-loopback"),
        (answered("metadata", 200), "metadata"),
        (answered("connect-unlisted", 0), "connect-unlisted"),
        (replace(GOOD, sni=b"nothing went wrong"), "another-sni"),
        (replace(GOOD, sni=b"SSLCertVerificationError(1, 'Hostname mismatch')"), "another-sni"),
        (replace(GOOD, answers=(0, *GOOD.answers[1:])), "another-sni"),
        (replace(GOOD, host=CLEAN), "another-host"),
        (replace(GOOD, echo=CLEAN.replace(DIGEST.encode(), b"e" * 64)), "swapped"),
        (replace(GOOD, echo=CLEAN.replace(b"X-Canary: hotdesk-removed", b"X-Canary: value")), "scrubbed"),
        (replace(GOOD, echo=CLEAN.replace(b"removed\n\r\n0", b"removal\n\r\n0")), "scrubbed"),
        (replace(GOOD, echo=CLEAN.replace(b"HTTP/1.1 200", b"HTTP/1.1 404")), "swapped"),
        (replace(GOOD, echo=b"TypeError()"), "swapped scrubbed"),
        (replace(GOOD, knocks=GOOD.knocks[1:]), "raw-ip dns ipv6 udp-443 metadata another-desk"),
        (replace(GOOD, knocks=(*GOOD.knocks, 101)), "raw-ip dns ipv6 udp-443 metadata another-desk"),
        (replace(GOOD, local=GOOD.local[1:]), "host-loopback host-sockets dns"),
        (replace(GOOD, local=()), "host-loopback host-sockets dns"),
        (replace(GOOD, answers=GOOD.answers[:-1]), "connect-loopback connect-unlisted metadata"),
    ],
)
def test_each_canary_fails_for_its_own_fault(told: CanaryResult, red: str) -> None:
    assert failed(told) == set(red.split())


def test_contacts_at_the_owners_own_sockets_count_without_a_report() -> None:
    assert failed(GOOD, frozenset({"host-sockets"})) == {"host-sockets"}


def said(**changed: object) -> bytes:
    told: dict[str, object] = {"nonce": "n", "knocks": [101], "local": [111], "answers": [403]}
    return json.dumps({**told, "sni": "00", "echo": "01", "host": "02", **changed}).encode()


def test_canary_reports_are_parsed() -> None:
    told = selftest.read(Done(0, said()), "n")
    assert told == CanaryResult((101,), (111,), (403,), b"\0", b"\1", b"\2")


@pytest.mark.parametrize(
    "done",
    [
        Done(0, b""),
        Done(0, b"[]"),
        Done(0, said()[:-1]),
        Done(0, said() + b"{}"),
        Done(0, b"[" * 60000),
        Done(0, b"\xff\xfe"),
        Done(0, said(nonce="m")),
        Done(0, said(nonce=None)),
        Done(0, said(more=1)),
        Done(0, said(knocks=[True])),
        Done(0, said(knocks=[1.5])),
        Done(0, said(knocks="11")),
        Done(0, said(echo=1)),
        Done(0, said(echo="x")),
        Done(1, said()),
        Done(0, said(), truncated=True),
        Done(137, said(), timed_out=True),
    ],
)
def test_malformed_canary_reports_are_refused(done: Done) -> None:
    assert selftest.read(done, "n") is None


def test_hosts_the_scope_lists_do_not_count_against_the_door() -> None:
    scope = Scope(rules=(Rule("::1"), Rule("169.254.0.0/16"), Rule("*.invalid"), Rule("*.test"), Rule("10.0.0.0/8")))
    near = selftest.list_refusable(scope, 4711, "nonce")
    assert [where for _, where in near] == ["127.0.0.1:4711", "localhost:4711", "127.0.0.1:3128"]
    denied = Scope(rules=(Rule("127.0.0.0/8", verdict="deny", methods=("*",)),))
    assert selftest.list_refusable(denied, 4711, "nonce") == NEAR


def test_an_untried_canary_counts_as_failed() -> None:
    scope = Scope(rules=(Rule("127.0.0.0/8"), Rule("localhost"), Rule("::1")))
    near = selftest.list_refusable(scope, 4711, "nonce")
    report = selftest.judge(replace(GOOD, answers=(200, 200, 403, 403)), FAR, near, DIGEST, frozenset())
    assert set(NAMES) - set(report.passed) == {"connect-loopback"}
    assert report.failed == ()


class AnsweringDesk:
    """A desk whose canaries report the given results, one a run."""

    def __init__(self, *results: CanaryResult) -> None:
        self.results = list(results)

    async def run(self, argv: list[str], **options: object) -> Done:
        far, result = argv[-3].split(), self.results.pop(0)
        fields = {"nonce": argv[6], "knocks": [errno.ENETUNREACH] * len(far), "local": result.local}
        fields |= {"answers": result.answers} | {name: getattr(result, name).hex() for name in ("sni", "echo", "host")}
        return Done(0, json.dumps(fields).encode())


LATE = {
    "no answer": replace(GOOD, answers=(0, *GOOD.answers[1:])),
    "no handshake": replace(GOOD, sni=b"TimeoutError('The read operation timed out')"),
    "no echo": replace(GOOD, echo=b"TimeoutError('timed out')", host=b"TimeoutError('timed out')"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_a_late_answer_is_retried_once(late: CanaryResult) -> None:
    expected = Canary("placeholder", DIGEST)
    for results, is_held in (((late, GOOD), True), ((late, late), False)):
        desk = AnsweringDesk(*results)
        report = await selftest.prove(desk, "python3", Scope(), expected)  # type: ignore[arg-type]
        assert (not report.failed, desk.results) == (is_held, [])


@pytest.mark.anyio
async def test_a_wrong_answer_is_not_retried() -> None:
    desk = AnsweringDesk(replace(GOOD, sni=b"nothing went wrong"), GOOD)
    report = await selftest.prove(desk, "python3", Scope(), Canary("placeholder", DIGEST))  # type: ignore[arg-type]
    assert (report.failed, desk.results) == (("another-sni",), [GOOD])


def test_a_call_to_the_bait_is_seen() -> None:
    with selftest.open_bait() as held:
        assert held.list_caught_canaries() == frozenset()
        with socket.socket(type=socket.SOCK_DGRAM) as caller:
            caller.sendto(b"", ("127.0.0.1", held.port))
            assert held.list_caught_canaries() == {"host-loopback"}
    with selftest.open_bait() as held, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(f"\0{held.name}")
        assert held.list_caught_canaries() == {"host-sockets"}
