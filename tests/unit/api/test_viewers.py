"""Tests of which viewer takes control: the one that was named, otherwise the latest that is still connected."""

from __future__ import annotations

from hotdesk.api.caller import Caller
from hotdesk.api.native.desks.viewers import Viewers

ME, YOU = Caller("default", "me", "k1"), Caller("default", "you", "k2")


def test_a_page_that_names_itself_takes_over_with_its_own_screen_and_not_another_tabs() -> None:
    viewers = Viewers()
    with viewers.looking(ME, "desk", "first-name", "tab1"), viewers.looking(ME, "desk", "second-name", "tab2"):
        assert viewers.find_latest(ME, "desk", "tab1") == "first-name"
        assert viewers.find_latest(ME, "desk", "tab2") == "second-name"
        assert viewers.find_latest(ME, "desk") == "second-name"
        assert viewers.find_latest(ME, "desk", "tab3") is None
        assert viewers.find_latest(YOU, "desk", "tab1") is None
        assert viewers.find_latest(ME, "other", "tab1") is None
    assert viewers.find_latest(ME, "desk") is None
    assert viewers.names == {}
