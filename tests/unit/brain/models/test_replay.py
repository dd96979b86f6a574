"""Tests of recordings and replays of model replies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.models.record import (
    RecordingHeader,
    RecordingModel,
    open_to_append,
    read_header,
    read_histories,
    read_lines,
    read_parts,
    read_replies,
    replay,
    write_header,
)
from hotdesk.brain.models.replay import Replay
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results, TokenUsage
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation, Tool

CALL = Call("1", "look", {})
FIRST = Reply(
    "Look.", calls=(CALL,), stop="calls", usage=TokenUsage(5, 6, dollars=1.5), native=({"a": 1},), dialect="chat"
)
SECOND = Reply("Done.")
SEEN = Results(((CALL, Observation("x", image=b"png", media="image/png")),))


def request(*history: Item, step: str = "") -> ModelRequest:
    return ModelRequest("You work.", [OurMessage("Go."), *history], [Tool("look", "Look.")], step=step)


async def test_replies_are_replayed_in_order_and_cost_nothing() -> None:
    model = Replay("job j1", [FIRST, SECOND])
    assert model.name == "replay of job j1"
    assert await model.ask(request()) == replace(FIRST, usage=TokenUsage(dollars=0.0), model="replay of job j1")
    assert (await model.ask(request(step="s1"))).text == "Done."
    with pytest.raises(ModelError, match="the replay of job j1 has no reply left: it has 2"):
        await model.ask(request())
    await model.close()


async def test_replies_by_step_are_given_to_their_step() -> None:
    model = Replay("job j1", {"": [SECOND], "s1": [FIRST, SECOND]})
    assert [(await model.ask(request(step=step))).text for step in ("s1", "", "s1")] == ["Look.", "Done.", "Done."]
    for step, count in (("s1", 2), ("s2", 0), ("", 1)):
        with pytest.raises(ModelError, match=f"it has {count}, and"):
            await model.ask(request(step=step))


async def test_a_record_holds_every_request_and_reply_and_can_be_replayed(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    model = RecordingModel(Replay("x", [FIRST, SECOND]), file)
    asked = [request(step="s1"), request(FIRST, SEEN, step="s1")]
    said = [await model.ask(each) for each in asked]
    with pytest.raises(ModelError):
        await model.ask(request(FIRST, SEEN, SECOND, OurMessage("More."), step="s2"))
    await model.close()
    assert read_replies(file) == {"s1": said}
    assert read_histories(file) == [
        [OurMessage("Go.")],
        [OurMessage("Go."), FIRST, SEEN],
        [OurMessage("Go."), FIRST, SEEN, SECOND, OurMessage("More.")],
    ]
    assert file.read_text().count("Go.") == 1
    assert file.stat().st_mode & 0o777 == 0o600
    again = replay(file)
    assert again.name == "replay of record record.jsonl"
    assert [await again.ask(each) for each in asked] == [replace(each, model=again.name) for each in said]


async def test_a_recording_says_how_it_was_made_and_so_does_its_replay(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    header = RecordingHeader(("chat:m@http://127.0.0.1:1/v1",), "by hand through a loopback provider")
    write_header(file, header)
    model = RecordingModel(Replay("x", [FIRST, SECOND]), file)
    await model.ask(request(step="s1"))
    await model.close()
    write_header(file, RecordingHeader(("another",)))
    assert read_header(file) == header
    assert file.stat().st_mode & 0o777 == 0o600
    assert [line.request.step for line in read_lines(file)] == ["s1"]
    again = replay(file)
    assert again.name == "replay of record record.jsonl (by hand through a loopback provider)"
    assert (await again.ask(request(step="s1"))).model == again.name


def test_a_recording_without_a_header_is_read_and_a_wrong_header_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    file.write_text("")
    assert read_header(file) == RecordingHeader()
    file.write_text('{"recording": {"models": ["m"]}}\n')
    assert replay(file).name == "replay of record record.jsonl (m)"
    file.write_text('{"recording": {"models": "m"}}\n')
    with pytest.raises(ModelError, match="models: expected a list"):
        read_header(file)


async def test_a_truncated_last_line_is_ignored_and_a_damaged_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    model = RecordingModel(Replay("x", [FIRST, SECOND]), file)
    for _ in range(2):
        await model.ask(request())
    await model.close()
    whole = file.read_text()
    file.write_text(whole[:-20])
    assert [len(each) for each in read_replies(file).values()] == [1]
    file.write_text(whole[20:])
    with pytest.raises(ModelError, match="record it again"):
        read_replies(file)
    file.write_text('{"request": {"step": "s1"}, "reply": {}}\n')
    with pytest.raises(ModelError, match=r"request\.system: it is missing"):
        read_replies(file)


def test_a_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RecordingModel(Replay("x", []), tmp_path / "link")


async def test_a_replay_uses_the_placeholders_of_its_own_desk() -> None:
    old, new = (f"hotdesk-secret-erp-password-{letter * 26}" for letter in "ab")
    other = f"hotdesk-secret-other-{'c' * 26}"
    typed = Call("1", "browser_type", {"text": old, "more": [f"x {old}", other], "count": 1})
    model = Replay("job j1", [Reply("Who?", calls=(CALL,)), Reply(calls=(typed,)), Reply(calls=(typed,))])
    first = await model.ask(request())
    shown = Results(((first.calls[0], Observation(f"ERP_PASSWORD={new}")),))
    later = (await model.ask(request(first, shown))).calls[0]
    assert later.arguments == {"text": new, "more": [f"x {new}", other], "count": 1}
    assert (await model.ask(request())).calls[0] == typed


async def test_a_record_of_several_conversations_keeps_them_separate(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    with open_to_append(file) as opened:
        models = {part: RecordingModel(Replay("x", [FIRST, SECOND]), opened, part) for part in ("", "item a", "item b")}
        for _ in range(2):
            for model in models.values():
                await model.ask(request(step="s1"))
    assert read_parts(file) == dict.fromkeys(models, read_replies(file))
    assert [reply.text for reply in read_replies(file)["s1"]] == [FIRST.text, SECOND.text]
    assert read_histories(file) == [[OurMessage("Go.")]] * 2
