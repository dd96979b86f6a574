"""Tests of paths, users and signatures in requests."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import pytest
from e2b.sandbox.signature import get_signature
from hypothesis import given
from hypothesis import strategies as st
from tests.sent_bodies import asked

from hotdesk.api.e2b.envd import signing
from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.api.e2b.envd.fields import get_bytes, get_number, get_text, get_texts, read_text_map, resolve
from hotdesk.api.e2b.envd.users import find_user, read_user_name
from hotdesk.api.e2b.responses import E2bError

HOME = "/home/user"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", HOME),
        (".", HOME),
        ("~", HOME),
        ("~/a", f"{HOME}/a"),
        ("a", f"{HOME}/a"),
        ("./a//b/", f"{HOME}/a/b"),
        ("~x", f"{HOME}/~x"),
        ("/", "/"),
        ("//etc", "/etc"),
        ("/a/../b", "/b"),
        ("../../../../x", "/x"),
        ("/../..", "/"),
        ("hä", f"{HOME}/hä"),
    ],
)
def test_a_path_begins_at_the_root(path: str, found: str) -> None:
    assert resolve(path, HOME) == found


@given(st.text(alphabet=st.sampled_from("/.~ab\ud800é")))
def test_parent_steps_are_removed_from_paths(path: str) -> None:
    found = resolve(path, HOME)
    assert found.startswith("/")
    assert not {".", "..", ""} & set(found.split("/")[1:] if found != "/" else ())


@pytest.mark.parametrize("path", ["a\0b", "/" + "a" * 4097, "é" * 2049])
def test_an_impossible_path_is_refused(path: str) -> None:
    with pytest.raises(RpcError) as caught:
        resolve(path, HOME)
    assert caught.value.code == "invalid_argument"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("shown", "name"),
    [("", "user"), (basic("root:"), "root"), (basic("user:"), "user"), (basic(":"), "user"), ("Bearer x", "user"),
     (basic("root:x:y"), "root")],
)  # fmt: skip
def test_a_caller_selects_its_user(shown: str, name: str) -> None:
    assert find_user(read_user_name(asked(headers={"authorization": shown}))).name == name


@pytest.mark.parametrize("shown", [basic("x:"), "Basic !", "Basic /w==", basic("root\0:"), basic("0:")])
def test_an_unknown_user_is_refused(shown: str) -> None:
    with pytest.raises(RpcError, match="invalid username") as caught:
        find_user(read_user_name(asked(headers={"authorization": shown})))
    assert caught.value.code == "unauthenticated"


@pytest.mark.parametrize("act", ["read", "write"])
@pytest.mark.parametrize("path", ["/f", "a b/hä", "x:y"])
@pytest.mark.parametrize("user", ["", "root"])
@pytest.mark.parametrize("seconds", [None, 100])
def test_signatures_are_those_of_the_sdk(act: signing.Act, path: str, user: str, seconds: int | None) -> None:
    made = get_signature(path, act, user, "the token", seconds)
    expiration = str(made["expiration"] or "")
    told = signing.Signed(path, act, user, made["signature"], expiration)
    assert signing.find(told, [SimpleNamespace(token="another"), SimpleNamespace(token="the token")])


@pytest.mark.parametrize("expiration", ["x", "-1", "²", "1e9", "9" * 20, " 1"])
def test_an_invalid_time_is_an_invalid_signature(expiration: str) -> None:
    told = signing.Signed("/f", "read", "", "", expiration)
    with pytest.raises(E2bError, match="invalid signature"):
        signing.check_expiry(told)


@pytest.mark.parametrize(
    ("read", "value"),
    [(get_number, True), (get_number, 1.5), (get_number, "x"), (get_number, []), (get_text, 1), (get_text, "a\0b"),
     (get_texts, "ab"), (get_texts, [1]), (get_texts, ["a\0"]), (read_text_map, ["a"]), (read_text_map, {"a": 1}),
     (read_text_map, {"a": "\0"}), (get_bytes, "!"), (get_bytes, "é"), (get_bytes, 1)],
)  # fmt: skip
def test_a_field_of_the_wrong_type_is_refused(read: object, value: object) -> None:
    with pytest.raises(RpcError) as caught:
        read({"f": value}, "f")  # type: ignore[operator]
    assert caught.value.code == "invalid_argument"
