"""Tests of compaction: what is sent of a long conversation fits, stays consistent, and changes rarely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.brain.conversations import FIRST, conversation, turn

from hotdesk.brain.compaction import BEGINNING, HIGH, LOW, PICTURE_BYTES, PICTURES, WorkingSet, estimate_tokens, fit
from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results
from hotdesk.brain.notes import Notes
from hotdesk.tool import Call, Observation

WINDOW = 20_000


def cost(items: Sequence[Item]) -> int:
    return sum(map(estimate_tokens, items))


def assert_whole(items: Sequence[Item]) -> None:
    """Check that each reply with calls is followed by exactly its results, and that no results stand alone."""
    assert isinstance(items[0], OurMessage)
    for before, item in zip([None, *items], [*items, None], strict=True):
        calls = before.calls if isinstance(before, Reply) else ()
        assert (tuple(call for call, _ in item.pairs) if isinstance(item, Results) else ()) == calls


def pictures(items: Sequence[Item]) -> int:
    return sum(bool(seen.image) for item in items if isinstance(item, Results) for _, seen in item.pairs)


def digest(items: Sequence[Item]) -> str:
    found = [item.text for item in items if isinstance(item, OurMessage) and item.text.startswith(BEGINNING)]
    assert len(found) <= 1
    return "".join(found)


def test_a_conversation_that_fits_is_sent_unchanged() -> None:
    history = conversation(5)
    assert fit(history, WINDOW) == tuple(history)


@pytest.mark.slow
def test_a_conversation_ten_times_the_window_fits_at_every_turn_and_its_first_fact_is_found() -> None:
    history: list[Item] = [FIRST]
    notes = Notes()
    seen = Observation("the gate code is 7391-Alpha\n" + "row of goods\n" * 200)
    first = Call("c", "shell", {"command": "cat gate.txt"})
    history += [Reply(calls=(first,)), Results(((first, seen),))]
    notes.add_observation("gather", 1, "shell", seen.text)
    for number in range(110):
        history += turn(number, 6000)
        sent = fit(history, WINDOW)
        assert cost(sent) <= WINDOW
        assert_whole(sent)
        assert sent[0] == FIRST
        assert sent[-4:] == tuple(history[-4:]), "the newest turns are verbatim"
    assert cost(history) > 10 * WINDOW
    assert "7391-Alpha" not in str(sent)
    assert "[step gather, act 1, shell] > the gate code is 7391-Alpha" in notes.recall("gate code")


def test_the_conversation_is_resent_unchanged_until_old_turns_are_summarised() -> None:
    history: list[Item] = [FIRST]
    working, compactions = WorkingSet(WINDOW, [FIRST]), 0
    before: tuple[Item, ...] = (FIRST,)
    for number in range(120):
        for item in (new := turn(number)):
            working.add(item)
        history += new
        sent = tuple(working.iterate_items())
        if sent[: len(before)] != before:
            compactions += 1
            assert cost(sent) <= LOW * WINDOW
            assert sent[0] is FIRST
            assert digest(sent) not in ("", digest(before)), "one message says what is gone"
            kept = [item for item in sent if not isinstance(item, OurMessage)]
            assert kept == history[-len(kept) :], "what stays is the end of the conversation, untouched"
            assert all(one is other for one, other in zip(kept, history[-len(kept) :], strict=True))
        before = sent
    assert 2 < compactions <= 24


def test_dropped_turns_become_a_line_each_without_desk_output() -> None:
    history = conversation(100)
    sent = fit(history, WINDOW)
    assert isinstance(sent[1], OurMessage)
    lines = digest(sent).splitlines()
    assert "- " in lines[1]
    assert lines[2].startswith('- shell {"command": "cat invoice-')
    assert "lists many things" not in digest(sent)
    left = sum(isinstance(item, Reply) for item in sent)
    unlisted = int(lines[1].split()[1]) if "earlier turns are not listed" in lines[1] else 0
    assert left + unlisted + len([line for line in lines[1:] if line.startswith("- shell")]) == 100


def test_a_persons_answer_stays_in_the_line() -> None:
    ask = Call("q", "ask_person", {"question": "Ulm or Graz?"})
    history: list[Item] = [FIRST, Reply(calls=(ask,)), Results(((ask, Observation("Graz, please")),))]
    sent = fit([*history, *conversation(40)[1:]], WINDOW)
    assert 'ask_person {"question": "Ulm or Graz?"}: Graz, please' in digest(sent)


def test_remaining_replies_are_unchanged() -> None:
    history = conversation(60)
    known = {id(item) for item in history if isinstance(item, Reply)}
    assert all(id(item) in known for item in fit(history, WINDOW) if isinstance(item, Reply))


def test_a_conversation_with_many_pictures_is_compacted_and_its_newest_stay() -> None:
    history = conversation(PICTURES, 20, b"png")
    assert fit(history, 10**6) == tuple(history)
    history += turn(PICTURES, 20, b"png")
    sent = fit(history, 10**6)
    assert pictures(sent) == LOW * PICTURES
    assert sent[-40:] == tuple(history[-40:])
    assert not digest(sent)
    assert sent[1] == OurMessage("[21 older pictures were removed from this conversation; their texts are kept.]")
    assert len(sent) == len(history) + 1
    for before, after in zip(history[1:-40], sent[2:-40], strict=True):
        assert after is before if isinstance(before, Reply) else said(after) == said(before)
    assert fit(sent, 10**6) == sent
    more = [*sent, *(item for number in range(PICTURES) for item in turn(number, 20, b"png"))]
    assert "[42 older" in str(fit(more, 10**6)[1])


def said(item: Item) -> list[str]:
    """List the texts of results, without the placeholders of pictures."""
    assert isinstance(item, Results)
    return [seen.text.removesuffix("\n[a picture was here]") for _, seen in item.pairs]


def test_pictures_too_large_together_are_dropped_before_a_provider_refuses_them() -> None:
    large = b"x" * (PICTURE_BYTES // 4)
    history = conversation(5, 20, large)
    sent = fit(history, 10**6)
    assert pictures(sent) == 2
    assert sent[-4:] == tuple(history[-4:])


def test_an_observation_larger_than_the_window_is_clipped_even_if_it_is_the_newest() -> None:
    history = [*conversation(3), *turn(3, 500_000)]
    sent = fit(history, WINDOW)
    assert cost(sent) <= HIGH * WINDOW
    last = sent[-1]
    assert isinstance(last, Results)
    text = last.pairs[0][1].text
    assert text.startswith("invoice 3")
    assert text.endswith("row of goods\n")
    assert "characters are left out here" in text
    assert_whole(sent)


def test_a_persons_message_stays_with_its_turn() -> None:
    told = OurMessage("You made the same call 3 times.")
    history = [*conversation(3), told, *turn(9)]
    assert fit(history, WINDOW) == tuple(history)
    long = fit([*history, *conversation(80)[1:]], WINDOW)
    assert told not in long
    assert_whole(long)


def test_a_window_hardly_larger_than_the_newest_turn_holds_that_turn() -> None:
    history = conversation(30)
    sent = fit(history, 2200)
    assert sent[0] == FIRST
    assert sent[-2:] == tuple(history[-2:])
    assert cost(sent) <= 2200


def test_a_compacted_conversation_can_be_extended() -> None:
    history = conversation(50)
    carried: tuple[Item, ...] = (FIRST, *turn(0))
    for number in range(1, 50):
        carried = fit([*carried, *turn(number)], WINDOW)
    assert digest(carried)
    assert carried == fit(history, WINDOW)


def test_results_before_any_reply_are_refused() -> None:
    with pytest.raises(ValueError, match="before any reply"):
        fit([FIRST, Results(())], WINDOW)


sizes = st.lists(st.tuples(st.integers(0, 9000), st.booleans(), st.integers(0, 2000)), min_size=15, max_size=40)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(sizes, st.integers(8000, 40_000))
def test_every_request_fits_and_can_be_compacted_again(shapes: list[tuple[int, bool, int]], window: int) -> None:
    history: list[Item] = [FIRST]
    carried: tuple[Item, ...] = (FIRST,)
    working = WorkingSet(window, [FIRST])
    for number, (size, picture, thought) in enumerate(shapes):
        new = turn(number, size, b"png" if picture else b"", thought)
        history += new
        sent = fit(history, window)
        carried = fit([*carried, *new], window)
        for item in new:
            working.add(item)
        assert sent == carried == tuple(working.iterate_items())
        assert cost(sent) <= window
        assert_whole(sent)
        assert (sent[0], sent[-2]) == (FIRST, new[0])
