from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest
from tests.outgoing import FORM, IS_FORM, IS_JSON, JSON, OTHER, VALUE, P, asks, held, refused, sent

from hotdesk.brief import SecretPlace
from hotdesk.door.secrets.bodies import BODY_LIMIT, MOST_FIELDS, MOST_LOOKED_AT
from hotdesk.door.secrets.inject import InjectionPlan, plan_injection

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
    listed = SecretPlace("json", "items.1.key", method="POST", path="/login")
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
    made = plan_injection(asks(*headers, method="POST", path="/login"), [held(JSON)])
    assert isinstance(made, InjectionPlan)
    assert made.body == ()


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/login"), ("POST", "/login/"), ("POST", "/comments"), ("POST", "/Login")]
)
def test_a_body_at_another_path_or_method_is_not_changed(method: str, path: str) -> None:
    made = plan_injection(asks(IS_JSON, method=method, path=path), [held(JSON, FORM)])
    assert isinstance(made, InjectionPlan)
    assert made.body == ()
    assert plan_injection(asks(IS_JSON, method="POST", path="/login"), [held(JSON)]) != made


def test_a_compressed_body_is_refused_where_a_secret_would_be_put_in() -> None:
    refused(asks(IS_JSON, (b"Content-Encoding", b"gzip"), method="POST", path="/login"), held(JSON))


SIGN_IN = asks(IS_JSON, method="POST", path="/login")
PASSWORD = b'"auth": {"password": "' + P + b'"}'


@pytest.mark.parametrize("start", [b"password=" + P, b"password=%68"])
@pytest.mark.parametrize("more", [b"&" * MOST_FIELDS, b"&a=1" * MOST_FIELDS, b"&a=" + b"%41" * (MOST_LOOKED_AT + 1)])
def test_a_form_of_too_many_fields_or_escapes_is_refused_and_not_taken_apart(start: bytes, more: bytes) -> None:
    assert "a form of over 1000 fields" in refused(LOGIN, held(FORM), body=start + more).reason


def test_a_form_of_many_fields_is_taken_apart() -> None:
    more = b"&a=1" * (MOST_FIELDS - 1)
    assert sent(LOGIN, held(FORM), body=b"password=" + P + more).body == b"password=" + VALUE + more


@pytest.mark.parametrize("start", [PASSWORD, b'"auth": "\\u0068"'])
@pytest.mark.parametrize("one", [b'""', b"1", b"[]", b"{}"])
def test_a_json_document_of_too_much_is_refused_and_not_taken_apart(start: bytes, one: bytes) -> None:
    body = b"{" + start + b', "x": [' + b",".join([one] * (MOST_LOOKED_AT + 1)) + b"]}"
    assert f"JSON of over {MOST_LOOKED_AT}" in refused(SIGN_IN, held(JSON), body=body).reason


def test_a_json_document_of_much_is_taken_apart() -> None:
    body = b"{" + PASSWORD + b', "x": [' + b",".join([b'""'] * (MOST_LOOKED_AT - 10)) + b"]}"
    assert sent(SIGN_IN, held(JSON), body=body).body == body.replace(P, VALUE)


def test_a_json_document_that_cannot_hold_a_placeholder_is_left_alone_whatever_its_size() -> None:
    body = b"[" + b'"%41",' * MOST_LOOKED_AT + b'""]'
    assert sent(SIGN_IN, held(JSON), body=body).body == body
