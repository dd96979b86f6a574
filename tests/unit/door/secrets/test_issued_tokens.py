from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.brief import Grant
from hotdesk.door.grant import LiveGrant, Refusal
from hotdesk.door.secrets.encodings import UnreadableError
from hotdesk.door.secrets.inject import InjectionPlan, OutgoingRequest, apply, plan_injection
from hotdesk.door.secrets.issued_tokens import AN_ANSWER, MAX_TOKENS, Issued
from hotdesk.door.secrets.outgoing import Outgoing
from hotdesk.door.secrets.placeholder import PLACEHOLDER, make_placeholder
from hotdesk.door.secrets.scrub import MOST_ISSUED, ScrubbedSecret, Scrubber

JSON = b"application/json; charset=utf-8"
REAL = b"eyJhbGciOi.real-token/of+the.host=="
GRANT = LiveGrant("g", Grant("erp", "erp.test"), make_placeholder("erp").encode())


def keeper(*fields: str) -> Issued:
    return Issued("erp.test", fields, lambda secret: None)


def answered(issued: Issued, data: bytes, *cuts: int, kind: bytes = JSON) -> bytes:
    stream = issued.stream(kind)
    assert stream is not None
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    out = b"".join(map(stream.feed, pieces)) + stream.finish()
    other = issued.stream(kind)
    assert other is not None
    assert b"".join(map(other.feed, pieces[:-1])) + other.feed_last(pieces[-1]) + other.finish() == out
    return out


def asks(*headers: tuple[bytes, bytes], host: str = "erp.test", scheme: str = "https") -> Outgoing:
    return Outgoing(scheme, host, 443, "GET", "/", b"", headers)


def sent(issued: Issued, *headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    out = asks(*headers)
    made = plan_injection(out, [GRANT], issued)
    assert isinstance(made, InjectionPlan), made
    done = apply(made, out, b"", {"g": b"granted"})
    assert isinstance(done, OutgoingRequest)
    return dict(done.headers)


def refused(issued: Issued | None, out: Outgoing) -> Refusal:
    made = plan_injection(out, [GRANT], issued)
    assert isinstance(made, Refusal)
    return made


@pytest.mark.parametrize("name", ["access_token", "refresh_token", "id_token", "session.key"])
def test_a_token_in_a_json_answer_becomes_a_placeholder_and_goes_back_as_bearer(name: str) -> None:
    issued = keeper("session.key")
    told = json.dumps({"expires_in": 3600, name: REAL.decode(), "scope": "all"}).encode()
    for cut in range(len(told)):
        out = answered(issued, told, cut, cut + 1)
        placeholder = json.loads(out)[name].encode()
        assert PLACEHOLDER.fullmatch(placeholder)
        assert out.replace(placeholder, REAL) == told
    assert sent(issued, (b"Authorization", b"Bearer " + placeholder))[b"Authorization"] == b"Bearer " + REAL
    assert b"hotdesk-secret-issued-" in placeholder


FIELD = st.sampled_from(
    [
        b'"access_token":"tok-en"', b'"id_token" : "a\\/b\\u0041\\"c"', b'"access_token":""', b'"access_token":null',
        b'"x":"access_token"', b'"access_tokens":"plain"', b'"s":"{\\"access_token\\":\\"in-ner\\"}"', b'"', b"\\",
        b'"access_tok', b'"refresh_token"\n:\n"r"', b'"s":"\\"id_token\\" : \\"a\\\\/b\\""', b' : "', b"[1,2]",
    ]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(FIELD, max_size=8).map(b",".join), st.lists(st.integers(0, 300), max_size=6))
def test_any_split_of_an_answer_reads_the_same(data: bytes, cuts: list[int]) -> None:
    def read(*cuts: int) -> bytes | str:
        issued = keeper()
        try:
            out = answered(issued, data, *cuts)
        except UnreadableError as e:
            return str(e)
        return PLACEHOLDER.sub(lambda m: b"<" + issued.tokens[m[0]].value + b">", out)

    whole = read()
    assert read(*cuts) == whole
    if isinstance(whole, bytes):
        assert b'"tok-en"' not in whole
        assert b'in-ner\\"' not in whole


def test_answers_without_tokens_are_left_as_they_are_and_not_held() -> None:
    issued = keeper()
    told = b'{"a": "access_token", "b": ["\\"", "\\\\"], "token": "mine", "access_token": null, "id_token": 7}'
    assert answered(issued, told, 5, 20, 40) == told
    stream = issued.stream(JSON)
    assert stream is not None
    assert stream.feed(b'{"event": 1}\n\n') == b'{"event": 1}\n\n'
    assert stream.feed(b'{"access') == b"{"
    assert stream.feed(b'ible": 1}') == b'"accessible": 1}'
    assert not issued.tokens


def test_a_token_in_json_inside_a_string_is_kept_too() -> None:
    issued = keeper()
    told = json.dumps({"body": json.dumps({"access_token": 'a"b/ü', "x": 1})}).encode()
    out = answered(issued, told, 30)
    assert json.loads(json.loads(out)["body"])["x"] == 1
    assert [token.value for token in issued.tokens.values()] == ['a"b/ü'.encode()]


def test_a_form_encoded_answer_and_the_address_of_a_redirect_are_read_too() -> None:
    issued = keeper()
    out = answered(
        issued, b"access_token=a%2Fb&scope=x&my_access_token=1", 5, kind=b"application/x-www-form-urlencoded"
    )
    assert re.fullmatch(rb"access_token=" + PLACEHOLDER.pattern + rb"&scope=x&my_access_token=1", out)
    assert [token.value for token in issued.tokens.values()] == [b"a/b"]
    out = issued.rewrite_location(b"https://erp.test/cb#state=1&id_token=abc&access_token=a%2Fb")
    assert out.count(b"hotdesk-secret-issued-") == 2
    assert b"abc" not in out
    assert issued.rewrite_location(b"/next?page=2") == b"/next?page=2"


@pytest.mark.parametrize("kind", [b"text/html", b"application/octet-stream", b"application/jsonx", b""])
def test_answers_of_other_types_are_not_touched(kind: bytes) -> None:
    assert keeper().stream(kind) is None


def test_a_field_that_does_not_end_is_unreadable_and_one_that_is_cut_is_not_shown() -> None:
    stream = keeper().stream(JSON)
    assert stream is not None
    with pytest.raises(UnreadableError, match="is longer than"):
        stream.feed(b'{"access_token": "' + b"x" * 20_000)
    with pytest.raises(UnreadableError):
        answered(keeper(), b'{"access_token": "' + b"x" * 9000 + b'"}')
    assert b"half-a-to" not in answered(keeper(), b'{"access_token": "half-a-to', 3)


def test_a_session_cookie_becomes_a_placeholder_and_goes_back_as_that_cookie() -> None:
    issued = keeper()
    header = issued.set_cookie(b"sid=" + REAL + b"; Path=/; httponly; Secure")
    assert REAL not in header
    assert header.endswith(b"; Path=/; httponly; Secure")
    placeholder = header[4 : header.index(b";")]
    assert sent(issued, (b"Cookie", b"sid=" + placeholder))[b"Cookie"] == b"sid=" + REAL
    assert refused(issued, asks((b"Cookie", b"comment=" + placeholder))).signs[0].what == "placeholder"
    assert refused(issued, asks((b"Authorization", b"Bearer " + placeholder))).signs[0].what == "placeholder"
    assert refused(issued, asks((b"Cookie", b"sid=" + placeholder + b"; sid=" + placeholder)))
    assert refused(issued, asks((b"Cookie", b"sid=" + placeholder), scheme="http"))


def test_a_token_one_host_issued_is_not_valid_at_another() -> None:
    placeholder = keeper().keep(REAL)
    assert refused(keeper(), asks((b"Authorization", b"Bearer " + placeholder))).signs[0].secret == "issued"
    assert refused(None, asks((b"Authorization", b"Bearer " + placeholder), host="open.test")).signs


def test_an_issued_token_goes_back_in_place_of_what_is_attached() -> None:
    issued = keeper()
    placeholder = issued.keep(REAL)
    assert sent(issued)[b"Authorization"] == b"Bearer granted"
    assert sent(issued, (b"authorization", b"bearer " + placeholder))[b"Authorization"] == b"bearer " + REAL
    assert refused(issued, asks((b"Authorization", b"Basic " + placeholder)))
    assert refused(issued, asks((b"X-Note", placeholder)))


def test_cookies_a_script_may_read_pass_and_may_be_sent_back_but_no_others() -> None:
    issued = keeper()
    assert issued.set_cookie(b"theme=dark; Path=/") == b"theme=dark; Path=/"
    assert issued.set_cookie(b"sid=; HttpOnly; Max-Age=0") == b"sid=; HttpOnly; Max-Age=0"
    assert sent(issued, (b"Cookie", b"theme=dark"))[b"Cookie"] == b"theme=dark"
    assert refused(issued, asks((b"Cookie", b"theme=light"))).signs[0].what == "foreign"
    assert refused(issued, asks((b"Cookie", b"theme=dark; session=mine"))).signs[0].what == "foreign"
    assert b"dark" not in repr(issued.observed).encode()


def test_the_same_value_keeps_its_placeholder_and_the_oldest_are_forgotten() -> None:
    issued = keeper()
    first = issued.keep(REAL)
    assert issued.keep(REAL) == first
    assert issued.keep(REAL, b"sid") != first
    for number in range(MAX_TOKENS):
        issued.keep(b"%d" % number)
    assert len(issued.tokens) == len(issued.placeholders) == MAX_TOKENS
    assert issued.find_bearer(first) is None
    for number in range(3000):
        issued.remember(b"a", b"%d" % number)
    assert len(issued.observed) == 1024


def test_a_stored_token_is_scrubbed_from_then_on() -> None:
    scrubber = Scrubber()
    issued = Issued("erp.test", (), scrubber.add)
    answered(issued, b'{"access_token": "' + REAL + b'"}')
    stream = scrubber.stream()
    assert REAL not in stream.feed(b"you are " + REAL + b" ")
    assert stream.hits == {"issued:erp.test"}
    assert ScrubbedSecret("issued:erp.test", "issued", REAL).scrubbable
    assert REAL.decode() not in repr(list(issued.tokens.values()))


def test_an_answer_with_more_tokens_than_any_has_is_not_passed_on() -> None:
    issued = Issued("erp.test", (), Scrubber().add)
    told = [json.dumps({"access_token": f"{REAL.decode()}{i}"}).encode() for i in range(AN_ANSWER + 1)]
    assert REAL not in answered(issued, b"".join(told[:AN_ANSWER]))
    with pytest.raises(UnreadableError, match=r"it has more than \d+ access tokens"):
        answered(issued, b"".join(told))


def test_a_host_may_issue_a_new_token_with_every_answer() -> None:
    scrubber = Scrubber()
    issued = Issued("erp.test", (), scrubber.add)
    for i in range(MOST_ISSUED + 10):
        last = f"{REAL.decode()}{i}"
        assert REAL not in answered(issued, json.dumps({"access_token": last}).encode())
    assert REAL not in scrubber.stream().scrub_value(last.encode())
    assert len(scrubber.issued) == MOST_ISSUED
