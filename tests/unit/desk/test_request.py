"""Tests of parsing requests to a keeper: what is accepted, and all that is refused."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.config import MIB
from hotdesk.desk.request import KeeperRequest, Verb, parse, write
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import BriefError

DESK = "i" + "a1" * 10
GOOD: dict[str, object] = {"n": 1, "verb": "open", "desk": DESK, "spec": {"image": "base"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize("verb", [verb for verb in get_args(Verb) if verb != "open"])
def test_a_request_makes_the_round_trip(verb: Verb) -> None:
    said: dict[str, dict[str, Any]] = {
        "dial": {"port": 8000},
        "save": {"name": "mine", "snapshot": "3"},
        "suspend": {"suspended": True},
        "make-volume": {"size": 64 << 20, "origin": new_id()},
        "hibernate": {"token": "0a" * 32},
        "may_save": {"stop": True},
        "burn": {"spare_hibernated": True},
    }
    request = KeeperRequest(verb, new_id(), **said.get(verb, {}))
    assert parse(write(7, request)) == (7, request)


def test_a_whole_spec_makes_the_round_trip() -> None:
    spec = Spec("other", 0.5, 64 * MIB, 32 * MIB, "memory", 20, 1.5, 2, {"A": "ü", "B": ""}, root=True, sterile=True)
    assert parse(write(0, KeeperRequest("open", DESK, spec))) == (0, KeeperRequest("open", DESK, spec))


@pytest.mark.parametrize("port", [0, -1, 65536, 1 << 70, 80.0, True, None, "80"])
def test_an_invalid_port_is_refused(port: object) -> None:
    with pytest.raises(BriefError, match="port"):
        parse(json.dumps({"n": 1, "verb": "dial", "desk": DESK, "port": port}).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"1",
        b"{",
        b'{"n": 1}',
        b"[" * 100_000,
        b'{"n": NaN, "verb": "burn", "desk": "x"}',
        b'{"n":' + b"9" * 5000 + b"}",
        b"\x00" * 65536,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_an_invalid_request_is_refused(data: bytes) -> None:
    with pytest.raises(BriefError):
        parse(data)


WRONG: list[dict[str, object]] = [
    {"n": None},
    {"n": "1"},
    {"n": True},
    {"n": -1},
    {"n": 1.0},
    {"n": 1 << 63},
    {"verb": None},
    {"verb": "exec"},
    {"verb": "OPEN"},
    {"verb": ["open"]},
    {"verb": {"a": 1}},
    {"desk": None},
    {"desk": ""},
    {"desk": "../../etc"},
    {"desk": DESK + "\n"},
    {"desk": DESK.upper()},
    {"desk": DESK + "a"},
    {"desk": "i" + "é" * 20},
    {"desk": ["i"]},
    {"extra": 1},
    {"spec": None},
    {"spec": []},
    {"spec": "base"},
    {"spec": {"unknown": 1}},
    {"spec": {"image": 5}},
    {"spec": {"cpus": "2"}},
    {"spec": {"cpus": True}},
    {"spec": {"cpus": 0}},
    {"spec": {"cpus": float("nan")}},
    {"spec": {"cpus": float("inf")}},
    {"spec": {"memory": 1.5}},
    {"spec": {"memory": 0}},
    {"spec": {"memory": -(1 << 40)}},
    {"spec": {"disk": None}},
    {"spec": {"disk": 0}},
    {"spec": {"disk_in": "cloud"}},
    {"spec": {"pids": 0}},
    {"spec": {"pids": 1 << 30}},
    {"spec": {"deadline": 0}},
    {"spec": {"deadline": float("inf")}},
    {"spec": {"deadline": float("nan")}},
    {"spec": {"idle": -1}},
    {"spec": {"env": []}},
    {"spec": {"env": {"A": 1}}},
    {"spec": {"env": {"A": None}}},
    {"spec": {"env": {"": "x"}}},
    {"spec": {"env": {"A=B": "x"}}},
    {"spec": {"env": {"A": "x\0"}}},
    {"spec": {"env": {"A\0": "x"}}},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_wrong_field_is_refused(change: dict[str, object]) -> None:
    parse(json.dumps(GOOD).encode())
    with pytest.raises(BriefError):
        parse(json.dumps({**GOOD, **change}).encode())


@given(st.binary(max_size=500))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except BriefError:
        pass


@given(st.sampled_from(["n", "verb", "desk", "spec"]), JSON)
def test_any_value_of_any_field_is_taken_or_refused(name: str, value: object) -> None:
    try:
        number, request = parse(json.dumps({**GOOD, name: value}).encode())
    except BriefError:
        return
    assert isinstance(number, int)
    assert request.verb in get_args(Verb)


@pytest.mark.slow
@given(st.sampled_from(Spec.__slots__), JSON)
def test_any_value_of_any_setting_is_taken_or_refused(name: str, value: object) -> None:
    try:
        _, request = parse(json.dumps({**GOOD, "spec": {name: value}}).encode())
    except BriefError:
        return
    usual = type(getattr(Spec(), name))
    assert type(getattr(request.spec, name)) in ({int, float} if usual is float else {usual})


def test_a_size_no_machine_has_is_refused() -> None:
    for name in ("memory", "disk"):
        with pytest.raises(BriefError):
            parse(json.dumps({**GOOD, "spec": {name: 1 << 64}}).encode())


SNAPSHOTS: list[dict[str, object]] = [
    {"verb": "forget", "snapshot": "7"},
    {"verb": "halt", "snapshot": "7"},
    {"verb": "boot", "snapshot": "999999999"},
    {"verb": "open", "spec": Spec(), "origin": "i" + "b2" * 10, "snapshot": "1", "spare": True},
    {"verb": "claim", "spec": Spec(tenant="one", root=True), "ca": ""},
]


@pytest.mark.parametrize("told", SNAPSHOTS, ids=lambda told: str(told["verb"]))
def test_extra_fields_of_a_request_make_the_round_trip(told: dict[str, object]) -> None:
    request = KeeperRequest(desk=DESK, **told)  # type: ignore[arg-type]
    assert parse(write(7, request)) == (7, request)


@pytest.mark.parametrize("value", ["0", "01", "-1", "1.5", "1\n", "²", "1234567890", "../1", "*", 1, True, 1.0, [], {}])
@pytest.mark.parametrize("verb", ["forget", "halt", "boot", "open"])
def test_an_invalid_snapshot_name_is_refused(verb: str, value: object) -> None:
    message = {**GOOD, "verb": verb, "snapshot": value}
    with pytest.raises(BriefError, match="snapshot"):
        parse(json.dumps(message).encode())


@pytest.mark.parametrize("value", ["x", DESK + "a", DESK.upper(), DESK + "/", "..", 1, True, [], {}])
def test_a_fork_of_an_invalid_desk_id_is_refused(value: object) -> None:
    with pytest.raises(BriefError, match="origin: expected a desk id"):
        parse(json.dumps({**GOOD, "origin": value}).encode())


@pytest.mark.parametrize("value", [2, -1, 0.5, "true", "", [], {}])
def test_a_value_that_is_not_a_boolean_is_refused(value: object) -> None:
    with pytest.raises(BriefError, match="expected a boolean"):
        parse(json.dumps({**GOOD, "spare": value}).encode())
