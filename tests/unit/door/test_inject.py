from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Sequence
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.brief import Grant, Place
from hotdesk.door.encodings import Unreadable
from hotdesk.door.inject import (
    BODY_LIMIT,
    PLACEHOLDER,
    Headers,
    Held,
    Kind,
    Outgoing,
    Plan,
    Refusal,
    Sent,
    Watcher,
    apply,
    harden,
    make_placeholder,
    minting,
    plan,
    wanted,
    watcher,
)

VALUE = b"real-value-of-the-erp-token"
P = make_placeholder("erp-token").encode()
OTHER = make_placeholder("bank").encode()
HOST = "erp.test"
FORM = Place("form", "password", method="POST", path="/login", swap=True)
JSON = Place("json", "auth.password", method="POST", path="/login", swap=True)
IS_FORM = (b"Content-Type", b"application/x-www-form-urlencoded")
IS_JSON = (b"content-type", b"application/json; charset=UTF-8")


def held(*places: Place, kind: Kind = "token", placeholder: bytes = P, foreign: bool = False, id: str = "g1") -> Held:
    return Held(id, Grant("erp-token", HOST, places=places, foreign=foreign), placeholder, kind)


def asks(
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    path: str = "/v1/items",
    query: bytes = b"",
    host: str = HOST,
    port: int = 443,
    scheme: str = "https",
) -> Outgoing:
    return Outgoing(scheme, host, port, method, path, query, [(b"Host", host.encode()), *headers])


def send(out: Outgoing, *grants: Held, body: bytes = b"", value: bytes = VALUE) -> Sent | Refusal:
    made = plan(out, grants)
    if isinstance(made, Refusal):
        return made
    return apply(made, out, body, dict.fromkeys(wanted(made, body), value))


def sent(out: Outgoing, *grants: Held, body: bytes = b"", value: bytes = VALUE) -> Sent:
    done = send(out, *grants, body=body, value=value)
    assert isinstance(done, Sent), done
    return done


def refused(out: Outgoing, *grants: Held, body: bytes = b"") -> Refusal:
    done = send(out, *grants, body=body)
    assert isinstance(done, Refusal), done.headers
    return done


def values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for one, value in headers if one.lower() == name]


def basic(pair: bytes) -> bytes:
    return b"Basic " + base64.b64encode(pair)


def test_a_placeholder_is_random_and_says_its_name() -> None:
    made = {make_placeholder("ERP token/2") for _ in range(50)}
    assert len(made) == 50
    assert all(PLACEHOLDER.fullmatch(one.encode()) and one.startswith("hotdesk-secret-erp-token-2-") for one in made)
    assert all(PLACEHOLDER.fullmatch(make_placeholder(name).encode()) for name in ("", "---", "x" * 500, "é"))


@pytest.mark.parametrize(
    ("place", "kind", "value", "header", "expected"),
    [
        (None, "token", VALUE, b"authorization", b"Bearer " + VALUE),
        (None, "oauth2", VALUE, b"authorization", b"Bearer " + VALUE),
        (None, "basic", b"ann:pw", b"authorization", basic(b"ann:pw")),
        (Place("basic"), "token", VALUE, b"authorization", basic(b"x-access-token:" + VALUE)),
        (Place("basic", "oauth2"), "token", VALUE, b"authorization", basic(b"oauth2:" + VALUE)),
        (Place("header", "X-Erp-Key"), "token", VALUE, b"x-erp-key", VALUE),
        (Place("cookie", "sid"), "token", VALUE, b"cookie", b"sid=" + VALUE),
    ],
)
def test_a_secret_is_attached_where_its_grant_says(
    place: Place | None, kind: Kind, value: bytes, header: bytes, expected: bytes
) -> None:
    done = sent(asks(), held(*([place] if place else []), kind=kind), value=value)
    assert values(done.headers, header) == [expected]
    assert done.ids == {"g1"}
    assert VALUE.decode() not in repr(done)


def test_what_went_along_is_told_without_its_value() -> None:
    assert sent(asks(), held()).used == ("erp-token in header authorization",)
    out = asks(IS_FORM, method="POST", path="/login")
    assert sent(out, held(FORM), body=b"password=" + P).used == ("erp-token in form password",)


@pytest.mark.parametrize("name", [b"x-erp-key", b"X-ERP-KEY", b"X_Erp_Key", b"x-erp_key"])
def test_copies_of_an_attached_header_are_removed_first(name: bytes) -> None:
    done = sent(asks((name, b"mine"), (name, b"again")), held(Place("header", "X-Erp-Key")))
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
    done = sent(asks((b"AUTHORIZATION", written)), held(Place("bearer", swap=True)))
    assert values(done.headers, b"authorization") == [expected]


def test_in_basic_user_and_password_go_as_the_vault_has_them() -> None:
    done = sent(
        asks((b"Authorization", basic(b"mallory:" + P))), held(Place("basic", swap=True), kind="basic"), value=b"ann:pw"
    )
    assert values(done.headers, b"authorization") == [basic(b"ann:pw")]


def test_without_a_placeholder_nothing_is_swapped_and_no_value_is_asked_for() -> None:
    made = plan(asks(), [held(Place("bearer", swap=True), FORM, JSON)])
    assert isinstance(made, Plan)
    assert wanted(made) == ()
    assert made.granted
    assert values(sent(asks(), held(Place("bearer", swap=True))).headers, b"authorization") == []


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
    ids=str,
)
def test_a_placeholder_anywhere_else_stops_the_request_and_is_an_alarm(out: Outgoing) -> None:
    refusal = refused(out, held(foreign=True))
    assert {(sign.what, sign.secret) for sign in refusal.signs} <= {
        ("placeholder", "erp-token"),
        ("placeholder", "bank"),
    }
    assert refusal.signs
    assert isinstance(plan(out, []), Refusal)


@pytest.mark.parametrize("foreign", [True, False])
def test_a_placeholder_whose_grant_has_ended_goes_nowhere(foreign: bool) -> None:
    out = asks((b"Authorization", b"Bearer " + P))
    assert refused(out).signs[0].secret == "erp-token"
    assert refused(out, held(placeholder=OTHER, foreign=foreign)).signs[0].secret == "erp-token"


def test_over_http_a_secret_is_not_even_attached() -> None:
    assert values(sent(asks(scheme="http", port=443), held()).headers, b"authorization") == []


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"Authorization", b"Bearer mine"),
        (b"authorization", basic(b"me:mine")),
        (b"X-Api-Key", b"k"),
        (b"x_api_key", b"k"),
        (b"Private-Token", b"k"),
        (b"X-AMZ-Security-Token", b"k"),
        (b"X-Goog-Api-Key", b"k"),
        (b"X-Vault-Token", b"k"),
        (b"Cookie", b"session=mine"),
        (b"Proxy-Authorization", b"Basic eA=="),
    ],
)
def test_a_desk_brings_no_credentials_of_its_own_to_a_granted_host(header: bytes, text: bytes) -> None:
    refusal = refused(asks((header, text)), held())
    assert refusal.signs[0].what == "foreign"
    assert b"mine" not in refusal.reason.encode()
    assert refused(asks((header, text), scheme="http", port=80), held()).signs[0].what == "foreign"
    assert isinstance(send(asks((header, text)), held(foreign=True)), Sent)
    assert isinstance(send(asks((header, text), host="open.test"), held()), Sent)
    assert isinstance(plan(asks((header, text)), [], ours=[HOST]), Refusal)


@pytest.mark.parametrize(
    "name", [b"access_token", b"API-Key", b"apikey", b"key", b"token", b"sig", b"X-Amz-Signature", b"%6bey"]
)
def test_nor_in_the_query(name: bytes) -> None:
    assert refused(asks(query=b"page=1&" + name + b"=mine"), held()).signs[0].what == "foreign"
    assert isinstance(send(asks(query=b"page=1&keyword=tokens"), held()), Sent)


QUERY = Place("query", "key", method="GET", path="/v1/items", swap=True)


def test_a_parameter_is_swapped_at_its_method_and_path_only() -> None:
    assert (
        sent(asks(query=b"a=%20&key=" + P + b"&b"), held(QUERY), value=b"v&=/ ").query == b"a=%20&key=v%26%3D%2F%20&b"
    )
    assert refused(asks(query=b"key=" + P, path="/v1/items/"), held(QUERY))
    assert refused(asks(query=b"key=" + P, method="POST"), held(QUERY))
    assert refused(asks(query=b"key=" + P + b"&key=" + P), held(QUERY))
    assert refused(asks(query=b"key=x" + P), held(QUERY))
    assert refused(asks(query=b"key=" + P), held(Place("query", "key", swap=True)))


def test_a_parameter_is_attached_at_its_method_and_path_only() -> None:
    place = Place("query", "key", method="GET", path="/v1/items")
    assert sent(asks(query=b"a=1"), held(place)).query == b"a=1&key=" + VALUE
    assert sent(asks(query=b"a=1", path="/"), held(place)).query == b"a=1"
    assert sent(asks(query=b"key=mine&a=1&%6bey=2"), held(place, foreign=True)).query == b"key=" + VALUE + b"&a=1"


LOGIN = asks(IS_FORM, method="POST", path="/login")


def test_a_form_field_is_swapped_and_the_rest_left_as_it_is() -> None:
    done = sent(LOGIN, held(FORM), body=b"user=a%20b&password=" + P + b"&&x=%zz", value=b"p&=+ \xc3\xa4")
    assert done.body == b"user=a%20b&password=p%26%3D%2B+%C3%A4&&x=%zz"
    assert parse_qs(done.body.decode())["password"] == ["p&=+ ä"]


@pytest.mark.parametrize(
    "body",
    [
        b"comment=" + P,
        b"password=x" + P,
        b"password=" + P + b"&comment=" + P,
        b"password=" + P + b"&password=1",
        b"password=1&pass%77ord=" + P,
        b"password=" + P.replace(b"-", b"%2d"),
        b"password=" + OTHER,
        P + b"=1",
        b"a\nb&password=" + P,
        b"comment=1;password=" + P,
    ],
)
def test_a_placeholder_elsewhere_in_a_form_stops_the_request(body: bytes) -> None:
    refused(LOGIN, held(FORM), body=body)


CALL = asks(IS_JSON, method="POST", path="/login")


def test_a_json_field_is_swapped_and_the_rest_left_as_it_is() -> None:
    body = b'{ "n":1.50,"auth" : {"user":"\\u0061", "password"\n:\t"' + P + b'"}, "x": "\xc3\xa4" }'
    done = sent(CALL, held(JSON), body=body, value='p"\\ä'.encode())
    assert done.body == body.replace(P, b'p\\"\\\\\\u00e4')
    assert json.loads(done.body)["auth"]["password"] == 'p"\\ä'
    listed = Place("json", "items.1.key", method="POST", path="/login")
    assert VALUE in sent(CALL, held(listed), body=b'{"items":[0,{"key":"' + P + b'"}]}').body


@pytest.mark.parametrize(
    "body",
    [
        b'{"comment": "%s"}' % P,
        b'{"password": "%s"}' % P,
        b'{"auth": {"password": "%s "}}' % P,
        b'{"auth": {"password": ["%s"]}}' % P,
        b'{"auth": {"password": "%s"}, "comment": "%s"}' % (P, P),
        b'{"auth": {"password": "\\u0068%s"}, "comment": "%s"}' % (P[1:], P),
        b'{"auth": {"password": "\\u0068%s"}}' % P[1:],
        b'{"auth": {"password": "%s", "password": "x"}}' % P,
        b'{"auth": {"password": "x"}, "auth": {"password": "%s"}}' % P,
        b'{"auth": {"%s": 1}}' % P,
        b'{"auth.password": "%s"}' % P,
        b'{"auth": {"password": "%s"}, "n": NaN}' % P,
        b'{"auth": {"password": "%s"}} {}' % P,
        b'{"auth": {"password": "%s"}' % P,
        b'\xef\xbb\xbf{"auth": {"password": "%s"}}' % P,
        b'{"auth": {"password": "%s"}, "n": %s1%s}' % (P, b"[" * 40, b"]" * 40),
        b'{"auth": {"password": "%s"}, "n": %s' % (P, b"[" * 100_000),
        b'{"auth": {"password": "%s"}, "n": %s}' % (P, b"9" * 5000),
        b'\xff\xfe"' + P,
        b'{"auth": {"password": "%s"}}' % OTHER,
        b'{"auth": {"password": "%s"}, "pad": "%s"}' % (P, b"x" * BODY_LIMIT),
    ],
    ids=lambda body: body[:60].decode("latin-1"),
)
def test_a_placeholder_elsewhere_in_json_stops_the_request(body: bytes) -> None:
    refused(CALL, held(JSON), body=body)


def test_bodies_without_placeholders_pass_as_they_are() -> None:
    for body in (b"", b"not json \\u0000 at all", b'{"a": "\\u0041", "a": 2}', b'{"t": "hotdesk-secret-"}'):
        assert sent(CALL, held(JSON), body=body).body == body


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [IS_JSON, IS_JSON],
        [(b"Content-Type", b"application/json; charset=utf-16")],
        [(b"Content-Type", b"application/jsonp")],
        [(b"Content-Type", b"text/json")],
        [(b"Content-Type", b"multipart/form-data; boundary=application/json")],
        [IS_FORM],
    ],
)
def test_a_body_of_another_type_is_not_one_to_put_a_secret_in(headers: list[tuple[bytes, bytes]]) -> None:
    made = plan(asks(*headers, method="POST", path="/login"), [held(JSON)])
    assert isinstance(made, Plan)
    assert made.body == ()


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/login"), ("POST", "/login/"), ("POST", "/comments"), ("POST", "/Login")]
)
def test_nor_is_one_at_another_path_or_method(method: str, path: str) -> None:
    made = plan(asks(IS_JSON, method=method, path=path), [held(JSON, FORM)])
    assert isinstance(made, Plan)
    assert made.body == ()
    assert plan(asks(IS_JSON, method="POST", path="/login"), [held(JSON)]) != made


def test_a_compressed_body_is_refused_where_a_secret_would_be_put_in() -> None:
    refused(asks(IS_JSON, (b"Content-Encoding", b"gzip"), method="POST", path="/login"), held(JSON))


@pytest.mark.parametrize("value", [b"", b"a\r\nX-Evil: 1", b"a\0b", b"a\nb"])
def test_a_value_that_would_break_a_header_is_not_sent(value: bytes) -> None:
    assert isinstance(send(asks(), held(Place("header", "X-Key")), value=value), Refusal)
    assert isinstance(send(asks(), held(Place("cookie", "sid")), value=value or b"a; b=c"), Refusal)


def test_answers_of_a_granted_host_are_asked_for_whole_and_unpacked() -> None:
    asked: Sequence[tuple[bytes, bytes]] = [
        (b"Range", b"bytes=0-3"), (b"if_range", b"x"), (b"Accept-Encoding", b"gzip"), (b"accept-encoding", b"br"),
        (b"Sec-WebSocket-Extensions", b"permessage-deflate"), (b"Accept", b"*/*"),
    ]  # fmt: skip
    assert harden(asked) == [(b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
    done = sent(asks(*asked), held(Place("bearer", swap=True)))
    assert values(done.headers, b"range") == []
    assert values(done.headers, b"accept-encoding") == [b"identity"]
    assert values(sent(asks(*asked, host="open.test"), held()).headers, b"range") == [b"bytes=0-3"]


@pytest.mark.parametrize("name", [b"X-Hotdesk-Identity", b"x_hotdesk_identity"])
def test_nobody_else_writes_the_identity_header(name: bytes) -> None:
    for host in (HOST, "open.test"):
        assert all(b"dentity" not in one for one, _ in sent(asks((name, b"me"), host=host), held()).headers)


@pytest.mark.parametrize(
    ("host", "method", "path", "query"),
    [
        ("sts.amazonaws.com", "POST", "/", b""),
        ("sts.eu-west-1.amazonaws.com", "GET", "/", b"Action=GetSessionToken"),
        ("iam.amazonaws.com", "GET", "/", b"UserName=x&Action=CreateAccessKey"),
        ("api.github.com", "POST", "/app/installations/12/access_tokens", b""),
        ("api.github.com", "POST", "/applications/abc/token/scoped", b""),
        ("github.corp.test", "POST", "/api/v3/app/installations/1/access_tokens", b""),
        ("github.com", "POST", "/settings/personal-access-tokens/new", b""),
        ("gitlab.corp.test", "POST", "/api/v4/users/7/personal_access_tokens", b""),
        ("gitlab.com", "POST", "/api/v4/personal_access_tokens/self/rotate", b""),
        ("gitlab.com", "POST", "/api/v4/projects/7/access_tokens/", b""),
        ("iamcredentials.googleapis.com", "POST", "/v1/projects/-/serviceAccounts/a@b:generateAccessToken", b""),
        ("iamcredentials.googleapis.com", "POST", "/v1/projects/-/serviceAccounts/a@b%3AsignJwt", b""),
        ("iam.googleapis.com", "POST", "/v1/projects/p/serviceAccounts/a@b/keys", b""),
        ("k8s.corp.test", "POST", "/api/v1/namespaces/default/serviceaccounts/x/token", b""),
        ("management.azure.com", "POST", "/subscriptions/1/storageAccounts/x/listKeys", b"api-version=1"),
        ("slack.com", "GET", "/api/oauth.v2.access", b"code=1"),
        ("vault.corp.test", "POST", "/v1/auth/token/create", b""),
    ],
)
def test_endpoints_that_make_new_credentials_are_known(host: str, method: str, path: str, query: bytes) -> None:
    assert minting(host, method, path, query)
    out = asks(method=method, path=path, query=query, host=host)
    grant = Held("g", Grant("t", host, foreign=True), P)
    assert isinstance(plan(out, [grant]), Refusal)
    assert isinstance(plan(out, [grant], minting_named=True), Plan)
    assert isinstance(plan(out, []), Plan)


@pytest.mark.parametrize(
    ("host", "method", "path"),
    [
        ("api.github.com", "GET", "/repos/a/b/issues"),
        ("api.github.com", "GET", "/user/keys"),
        ("gitlab.com", "GET", "/api/v4/projects/7/issues"),
        ("storage.googleapis.com", "GET", "/bucket/object"),
        ("k8s.corp.test", "GET", "/api/v1/namespaces/default/pods"),
        ("erp.test", "POST", "/authorizations/7"),
    ],
)
def test_ordinary_requests_make_none(host: str, method: str, path: str) -> None:
    assert minting(host, method, path, b"") is None


def watched(data: bytes, cuts: Sequence[int]) -> tuple[bytes, bytes | None]:
    eye = Watcher()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = b"".join(eye.feed(data[a:b]) for a, b in itertools.pairwise(edges))
    return out + eye.finish(), eye.found


NEAR = st.sampled_from(
    [
        P,
        P[:-1],
        P[:20],
        P[5:],
        b"hotdesk-",
        b"hotdesk-secret-",
        b"hotdesk-secret-a-",
        b"-" * 30,
        b"a" * 26,
        b"x",
        b"h",
        b" ",
    ]
)
CUTS = st.lists(st.integers(0, 600), max_size=8)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(NEAR, st.binary(max_size=5)), max_size=10).map(b"".join), CUTS)
def test_no_placeholder_leaves_whole_in_a_body_whatever_the_split(data: bytes, cuts: list[int]) -> None:
    out, found = watched(data, cuts)
    assert not PLACEHOLDER.search(out)
    assert bool(found) == bool(PLACEHOLDER.search(data))
    assert data.startswith(out)
    assert found or out == data


def test_the_longest_placeholder_does_not_leave_at_any_split() -> None:
    longest = b"hotdesk-secret-" + b"n" * 64 + b"-" + b"a" * 26
    for cut in range(len(longest)):
        assert watched(b"x" + longest + b"x", [cut])[1] == longest
        assert len(watched(b"x" + longest + b"x", [cut])[0]) <= 1


def test_what_cannot_be_a_placeholder_is_not_held_back() -> None:
    eye = Watcher()
    assert eye.feed(b"hotdesk-secret-x\n") == b"hotdesk-secret-x\n"
    assert eye.feed(b"the h") == b"the "
    assert eye.feed(b"at hotdesk-secret-" + b"a" * 200) == b"hat hotdesk-secret-" + b"a" * 200


def test_after_a_placeholder_nothing_more_leaves() -> None:
    eye = Watcher()
    assert eye.feed(b"x" + P) == b""
    assert eye.found == P
    assert eye.feed(b"more") + eye.finish() == b""


@pytest.mark.parametrize("step", [1, 50, 5000])
def test_a_placeholder_inside_a_compressed_body_does_not_leave(step: int) -> None:
    packed = gzip.compress(b'{"a": "' + b"filling " * 50 + P + b'"}')
    eye, out = watcher(b"gzip", granted=False), b""
    for start in range(0, len(packed), step):
        out += eye.feed(packed[start : start + step])
    assert eye.found == P
    assert len(out) < len(packed) - 8
    clean = watcher(b"gzip", granted=True)
    assert clean.feed(gzip.compress(b"fine")) + clean.finish() == gzip.compress(b"fine")


def test_a_body_nobody_can_read_goes_to_no_granted_host() -> None:
    with pytest.raises(Unreadable):
        watcher(b"compress", granted=True)
    assert watcher(b"compress", granted=False).feed(b"x") == b"x"
    with pytest.raises(Unreadable):
        watcher(b"gzip", granted=False).feed(b"no gzip")
