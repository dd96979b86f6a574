from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from tests.outgoing import FORM, HOST, IS_FORM, JSON, OTHER, VALUE, P, asks, basic, held, refused, send, sent, values

from hotdesk.brief import SecretPlace
from hotdesk.door.grant import Kind, Refusal
from hotdesk.door.secrets.inject import InjectionPlan, list_needed_grants, plan_injection
from hotdesk.door.secrets.outgoing import COOKIES, PARAMETERS, Outgoing, harden


@pytest.mark.parametrize(
    ("place", "kind", "value", "header", "expected"),
    [
        (None, "token", VALUE, b"authorization", b"Bearer " + VALUE),
        (None, "oauth2", VALUE, b"authorization", b"Bearer " + VALUE),
        (None, "basic", b"ann:pw", b"authorization", basic(b"ann:pw")),
        (SecretPlace("basic"), "token", VALUE, b"authorization", basic(b"x-access-token:" + VALUE)),
        (SecretPlace("basic", "oauth2"), "token", VALUE, b"authorization", basic(b"oauth2:" + VALUE)),
        (SecretPlace("header", "X-Erp-Key"), "token", VALUE, b"x-erp-key", VALUE),
        (SecretPlace("cookie", "sid"), "token", VALUE, b"cookie", b"sid=" + VALUE),
    ],
)
def test_a_secret_is_attached_where_its_grant_says(
    place: SecretPlace | None, kind: Kind, value: bytes, header: bytes, expected: bytes
) -> None:
    done = sent(asks(), held(*([place] if place else []), kind=kind), value=value)
    assert values(done.headers, header) == [expected]
    assert done.ids == {"g1"}
    assert VALUE.decode() not in repr(done)


def test_an_attached_secret_is_reported_without_its_value() -> None:
    assert sent(asks(), held()).used == ("erp-token in header authorization",)
    out = asks(IS_FORM, method="POST", path="/login")
    assert sent(out, held(FORM), body=b"password=" + P).used == ("erp-token in form password",)


@pytest.mark.parametrize("name", [b"x-erp-key", b"X-ERP-KEY", b"X_Erp_Key", b"x-erp_key"])
def test_copies_of_an_attached_header_are_removed_first(name: bytes) -> None:
    done = sent(asks((name, b"mine"), (name, b"again")), held(SecretPlace("header", "X-Erp-Key")))
    assert [value for one, value in done.headers if b"erp" in one.lower()] == [VALUE]


@pytest.mark.parametrize("written", [b"Bearer " + P, b"token " + P, P, basic(b"git:" + P), basic(P + b":")])
def test_a_desk_may_write_the_placeholder_where_the_secret_is_attached(written: bytes) -> None:
    assert values(sent(asks((b"Authorization", written)), held()).headers, b"authorization") == [b"Bearer " + VALUE]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"Bearer " + P, b"Bearer " + VALUE),
        (b"token " + P, b"token " + VALUE),
        (basic(b"git:" + P), basic(b"git:" + VALUE)),
        (basic(P + b":x-oauth-basic"), basic(VALUE + b":x-oauth-basic")),
    ],
)
def test_a_placeholder_in_a_header_is_swapped_as_it_was_written(written: bytes, expected: bytes) -> None:
    done = sent(asks((b"AUTHORIZATION", written)), held(SecretPlace("bearer", swap=True)))
    assert values(done.headers, b"authorization") == [expected]


def test_basic_authentication_uses_the_vaults_user_and_password() -> None:
    done = sent(
        asks((b"Authorization", basic(b"mallory:" + P))),
        held(SecretPlace("basic", swap=True), kind="basic"),
        value=b"ann:pw",
    )
    assert values(done.headers, b"authorization") == [basic(b"ann:pw")]


def test_without_a_placeholder_nothing_is_swapped_and_no_value_is_asked_for() -> None:
    made = plan_injection(asks(), [held(SecretPlace("bearer", swap=True), FORM, JSON)])
    assert isinstance(made, InjectionPlan)
    assert list_needed_grants(made) == ()
    assert made.granted
    assert values(sent(asks(), held(SecretPlace("bearer", swap=True))).headers, b"authorization") == []


def test_of_two_grants_for_one_place_the_desk_says_which() -> None:
    first, second = held(), held(placeholder=OTHER, id="g2")
    assert sent(asks(), first, second).ids == {"g1"}
    assert sent(asks((b"Authorization", b"Bearer " + OTHER)), first, second).ids == {"g2"}


@pytest.mark.parametrize(
    "out",
    [
        asks((b"Authorization", b"Bearer " + P), host="evil.test"),
        asks((b"Authorization", b"Bearer " + P), host="sub.erp.test"),
        asks((b"Authorization", b"Bearer " + P), port=8443),
        asks((b"Authorization", b"Bearer " + P), scheme="http"),
        asks((b"Authorization", b"Bearer " + P), scheme="http", port=80),
        asks((b"Authorization", b"Bearer " + OTHER)),
        asks((b"Authorization", b"Bearer x" + P)),
        asks((b"Authorization", b"Bearer " + P + b" " + P)),
        asks((b"Authorization", b"Bearer " + P), (b"authorization", b"Bearer " + P)),
        asks((b"Authorization", basic(P + b":" + P))),
        asks((b"Authorization", basic(b"x" + P + b":"))),
        asks((b"Authorization", b"basic  " + base64.b64encode(b"a:" + P)), host="evil.test"),
        asks((b"X-Note", P)),
        asks((b"X-Note", P.replace(b"-", b"%2D"))),
        asks((b"X-" + P, b"1")),
        asks((b"Cookie", b"a=1; b=" + P)),
        asks((b"Cookie", P)),
        asks((b"Referer", b"https://erp.test/?q=" + P)),
        asks(path="/v1/" + P.decode()),
        asks(path="/v1/" + P.decode().replace("-", "%2d")),
        asks(query=b"q=" + P),
        asks(query=b"a=1&" + P + b"=1"),
        asks(query=b"q=" + P.replace(b"h", b"%68")),
        asks(method=P.decode()),
    ],
    ids=lambda out: type(out).__name__,
)
def test_a_placeholder_anywhere_else_stops_the_request_and_is_an_alarm(out: Outgoing) -> None:
    refusal = refused(out, held(foreign=True))
    assert {(sign.what, sign.secret) for sign in refusal.signs} <= {
        ("placeholder", "erp-token"),
        ("placeholder", "bank"),
    }
    assert refusal.signs
    assert isinstance(plan_injection(out, []), Refusal)


@pytest.mark.parametrize("foreign", [True, False])
def test_a_placeholder_whose_grant_has_ended_goes_nowhere(foreign: bool) -> None:
    out = asks((b"Authorization", b"Bearer " + P))
    assert refused(out).signs[0].secret == "erp-token"
    assert refused(out, held(placeholder=OTHER, foreign=foreign)).signs[0].secret == "erp-token"


def test_over_http_a_secret_is_not_even_attached() -> None:
    assert values(sent(asks(scheme="http", port=443), held()).headers, b"authorization") == []


QUERY = SecretPlace("query", "key", method="GET", path="/v1/items", swap=True)


def test_a_parameter_is_swapped_at_its_method_and_path_only() -> None:
    assert (
        sent(asks(query=b"a=%20&key=" + P + b"&b"), held(QUERY), value=b"v&=/ ").query == b"a=%20&key=v%26%3D%2F%20&b"
    )
    assert refused(asks(query=b"key=" + P, path="/v1/items/"), held(QUERY))
    assert refused(asks(query=b"key=" + P, method="POST"), held(QUERY))
    assert refused(asks(query=b"key=" + P + b"&key=" + P), held(QUERY))
    assert refused(asks(query=b"key=x" + P), held(QUERY))
    assert refused(asks(query=b"key=" + P), held(SecretPlace("query", "key", swap=True)))


def test_a_parameter_is_attached_at_its_method_and_path_only() -> None:
    place = SecretPlace("query", "key", method="GET", path="/v1/items")
    assert sent(asks(query=b"a=1"), held(place)).query == b"a=1&key=" + VALUE
    assert sent(asks(query=b"a=1", path="/"), held(place)).query == b"a=1"
    assert sent(asks(query=b"key=mine&a=1&%6bey=2"), held(place, foreign=True)).query == b"key=" + VALUE + b"&a=1"


@pytest.mark.parametrize("value", [b"", b"a\r\nX-Evil: 1", b"a\0b", b"a\nb"])
def test_a_value_that_would_break_a_header_is_not_sent(value: bytes) -> None:
    assert isinstance(send(asks(), held(SecretPlace("header", "X-Key")), value=value), Refusal)
    assert isinstance(send(asks(), held(SecretPlace("cookie", "sid")), value=value or b"a; b=c"), Refusal)


def test_answers_of_a_granted_host_are_asked_for_whole_and_unpacked() -> None:
    asked: Sequence[tuple[bytes, bytes]] = [
        (b"Range", b"bytes=0-3"), (b"if_range", b"x"), (b"Accept-Encoding", b"gzip"), (b"accept-encoding", b"br"),
        (b"Sec-WebSocket-Extensions", b"permessage-deflate"), (b"Accept", b"*/*"),
    ]  # fmt: skip
    assert harden(asked) == [(b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
    done = sent(asks(*asked), held(SecretPlace("bearer", swap=True)))
    assert values(done.headers, b"range") == []
    assert values(done.headers, b"accept-encoding") == [b"identity"]
    assert values(sent(asks(*asked, host="open.test"), held()).headers, b"range") == [b"bytes=0-3"]


@pytest.mark.parametrize("name", [b"X-Hotdesk-Identity", b"x_hotdesk_identity"])
def test_a_desk_cannot_set_the_identity_header(name: bytes) -> None:
    for host in (HOST, "open.test"):
        assert all(b"dentity" not in one for one, _ in sent(asks((name, b"me"), host=host), held()).headers)


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (asks((b"Cookie", b"a;" * COOKIES)), "the request has too many cookies"),
        (asks((b"Cookie", b";" * COOKIES)), "the request has too many cookies"),
        (asks(*[(b"cookie", b"a=1; b=2")] * (COOKIES // 2), (b"Cookie", b"c=3")), "the request has too many cookies"),
        (asks(query=b"&".join([b"%41=1"] * (PARAMETERS + 1))), "the request has too many query parameters"),
        (asks(query=b"&" * PARAMETERS), "the request has too many query parameters"),
    ],
)
def test_a_head_of_too_many_parts_is_refused_before_it_is_taken_apart(out: Outgoing, why: str) -> None:
    for grants in ([], [held()]):
        made = plan_injection(out, grants)
        assert isinstance(made, Refusal)
        assert made.reason.startswith(why)


def test_a_head_of_many_parts_is_taken_apart() -> None:
    cookies, query = b"; ".join([b"a=1"] * COOKIES), b"&".join([b"%41=1"] * PARAMETERS)
    assert isinstance(plan_injection(asks((b"Cookie", cookies), query=query), [held(foreign=True)]), InjectionPlan)
