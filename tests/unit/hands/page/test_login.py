"""Tests of login codes, sessions and stream handles: each belongs to one user and expires."""

from __future__ import annotations

from hotdesk.hands.page.login import CODE_SECONDS, HANDLE_SECONDS, MAX_HANDLES, MAX_SESSIONS, PageLogin, PageSession


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def entered(entry: PageLogin) -> PageSession:
    session = entry.enter(entry.invite())
    assert session is not None
    return session


def test_a_code_works_once() -> None:
    entry = PageLogin(Clock())
    code = entry.invite()
    assert entry.enter(code) is not None
    assert entry.enter(code) is None
    assert entry.enter("") is None


def test_a_code_works_for_a_minute() -> None:
    clock = Clock()
    entry = PageLogin(clock)
    code = entry.invite()
    clock.now += CODE_SECONDS + 1
    assert entry.is_over()
    assert entry.enter(code) is None


def test_a_session_is_known_by_its_place_and_its_key() -> None:
    entry = PageLogin(Clock())
    one, two = entered(entry), entered(entry)
    assert entry.find(one.place, one.key) is one
    assert entry.find(one.place, two.key) is None
    assert entry.find(two.place, one.key) is None
    assert entry.find(one.place, "") is None
    assert entry.find("", "") is None
    assert entry.find(one.place, "ü") is None


def test_a_handle_starts_one_stream_of_its_own_session() -> None:
    entry = PageLogin(Clock())
    one, two = entered(entry), entered(entry)
    handle = entry.issue(one)
    assert entry.redeem(handle, one)
    assert not entry.redeem(handle, one)
    stolen = entry.issue(one)
    assert not entry.redeem(stolen, two)
    assert not entry.redeem(stolen, one)
    assert not entry.redeem("", one)


def test_a_handle_is_void_after_a_moment() -> None:
    clock = Clock()
    entry = PageLogin(clock)
    session = entered(entry)
    handle = entry.issue(session)
    clock.now += HANDLE_SECONDS + 1
    assert not entry.redeem(handle, session)


def test_handles_and_sessions_are_limited() -> None:
    entry = PageLogin(Clock())
    session = entered(entry)
    first = entry.issue(session)
    for _ in range(MAX_HANDLES):
        entry.issue(session)
    assert len(entry.handles) == MAX_HANDLES
    assert not entry.redeem(first, session)
    for _ in range(MAX_SESSIONS):
        entry.enter(entry.invite())
    assert len(entry.sessions) == MAX_SESSIONS
