"""Tests of a swarm's page: every item is on the map, and item texts are shown as text."""

from __future__ import annotations

import re

from hotdesk.event import ItemEnded, ItemReviewed, SwarmBegun
from hotdesk.swarm.page import MAX_QUOTED, choose_quoted, make_page
from hotdesk.swarm.results import SwarmState

HEX = "ab" * 32
HOSTILE = '</div><script>alert(1)</script><img src=x onerror="x">\u202e'


def make_state(count: int) -> SwarmState:
    state = SwarmState()
    state.take(SwarmBegun("i5", count, HEX, HEX))
    for index in range(count):
        failed = index % 10 == 9
        state.take(
            ItemEnded(
                "i5", f"c-{index}", index, HEX, "quarantined" if failed else "done", "i6", "i7", (f"c-{index}.json",),
                (HEX,), (5,), () if failed else ("json",), why=HOSTILE if failed else "", cause="check" * failed,
            )
        )  # fmt: skip
    state.take(ItemReviewed("i5", "c-0", "wrong", "a person"))
    return state


def test_every_item_is_on_the_map_with_its_state() -> None:
    page = make_page("i5", "Read.", make_state(30), {"c-1": "{}"}).decode()
    squares = re.findall(r'<a class="(\w+)" href="#item-(\d+)"', page)
    assert [int(index) for _, index in squares] == list(range(30))
    assert [kind for kind, _ in squares].count("quarantined") == 3
    assert squares[0] == ("wrong", "0")
    assert all(f'id="item-{index}"' in page for index in range(30))


def test_texts_of_items_are_shown_as_text() -> None:
    page = make_page("i5", HOSTILE, make_state(20), dict.fromkeys(("c-1", "c-9"), HOSTILE)).decode()
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert "default-src &#x27;none&#x27;" in page or "default-src 'none'" in page


def test_failed_items_are_quoted_first() -> None:
    chosen = choose_quoted(make_state(2 * MAX_QUOTED))
    assert len(chosen) == MAX_QUOTED
    assert all(each.outcome == "quarantined" for each in chosen[: MAX_QUOTED // 5])
