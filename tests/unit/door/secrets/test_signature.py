from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.outgoing import HOST as ERP
from tests.outgoing import IS_FORM, OTHER, P, asks, held

from hotdesk.brief import Grant, SecretPlace
from hotdesk.door.grant import LiveGrant, Refusal
from hotdesk.door.secrets.inject import (
    InjectionPlan,
    OutgoingRequest,
    apply,
    list_needed_grants,
    plan_injection,
    sign_request,
)
from hotdesk.door.secrets.outgoing import Outgoing
from hotdesk.door.secrets.signature import (
    LONGEST_AUTHORIZATION,
    PRESIGNED,
    STREAMED,
    SigV4Signer,
    compute_digest,
    explain_misdirection,
    explain_unsignable,
    parse_credential,
    read_declared_digest,
    sign,
)

SECRET = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
S3_SECRET = b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
AT = "20150830T123600Z"
HOST = (b"Host", b"example.amazonaws.com")
SIGNER = SigV4Signer("AKIDEXAMPLE", "service", "us-east-1")
S3 = SigV4Signer("AKIAIOSFODNN7EXAMPLE", "s3", "us-east-1", "examplebucket")
EMPTY = compute_digest(b"")


def signature(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return headers[-1][1].rpartition(b"Signature=")[2]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", b"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (b"Param2=value2&Param1=value1", b"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ],
)
def test_the_published_examples_give_the_published_signatures(query: bytes, expected: bytes) -> None:
    assert signature(sign(SIGNER, SECRET, "GET", "/", query, [HOST], EMPTY, AT)) == expected


def test_the_published_example_of_s3_comes_out() -> None:
    headers = [(b"Host", b"examplebucket.s3.amazonaws.com")]
    made = sign(S3, S3_SECRET, "GET", "/", b"lifecycle", headers, EMPTY, "20130524T000000Z")
    assert signature(made) == b"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"


def test_the_desks_signature_is_replaced() -> None:
    sent = [
        HOST,
        (b"authorization", b"AWS4-HMAC-SHA256 x"),
        (b"X_Amz_Security_Token", b"theirs"),
        (b"x-amz-date", b"1"),
        (b"x_amz_content_sha256", b"theirs"),
    ]
    made = sign(S3, SECRET, "PUT", "/a", b"", sent, b"UNSIGNED-PAYLOAD", AT)
    assert b"theirs" not in b"".join(value for _, value in made)
    assert (b"X-Amz-Content-Sha256", b"UNSIGNED-PAYLOAD") in made
    assert sum(name.lower() == b"authorization" for name, _ in made) == 1
    assert SECRET not in b"".join(value for _, value in made)


def test_everything_that_is_sent_is_signed() -> None:
    made = {
        signature(sign(SIGNER, SECRET, method, path, query, [HOST, (b"x-amz-a", value)], compute_digest(body), AT))
        for method in ("GET", "POST")
        for path in ("/", "/a")
        for query in (b"", b"a=1")
        for value in (b"1", b"2")
        for body in (b"", b"x")
    }
    assert len(made) == 32


@pytest.mark.parametrize("path", ["/a@b", "/a%40b"])
def test_at_s3_a_path_is_signed_as_s3_reads_it_however_it_is_spelt(path: str) -> None:
    made = sign(S3, SECRET, "GET", path, b"", [HOST], EMPTY, AT)
    assert signature(made) == signature(sign(S3, SECRET, "GET", "/a%40b", b"", [HOST], EMPTY, AT))
    assert signature(made) != signature(sign(SIGNER, SECRET, "GET", path, b"", [HOST], EMPTY, AT))


@pytest.mark.parametrize(
    ("headers", "query", "reason"),
    [
        ([], b"a=1&X-Amz-Signature=abc", PRESIGNED),
        ([], b"x-amz-credential=abc", PRESIGNED),
        ([], b"X%2DAmz-Algorithm=AWS4-HMAC-SHA256", PRESIGNED),
        ([(b"X-Amz-Content-SHA256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD")], b"", STREAMED),
        ([(b"x_amz_content_sha256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER")], b"", STREAMED),
        ([(b"X-Amz-Trailer", b"x-amz-checksum-crc32")], b"", STREAMED),
        ([(b"X_Amz_Decoded_Content_Length", b"1")], b"", STREAMED),
    ],
)
def test_presigned_and_streamed_requests_are_refused_with_a_reason(
    headers: list[tuple[bytes, bytes]], query: bytes, reason: str
) -> None:
    assert explain_unsignable(headers, query) == reason
    assert explain_unsignable([HOST], b"list-type=2") is None


def said(service: str = "s3", region: str = "us-east-1", key: bytes = P) -> bytes:
    scope = f"20150830/{region}/{service}/aws4_request".encode()
    return b"AWS4-HMAC-SHA256 Credential=" + key + b"/" + scope + b", SignedHeaders=host, Signature=" + b"0" * 64


def test_a_signature_says_its_key_service_and_region() -> None:
    assert parse_credential(said()) == (P, "s3", "us-east-1")
    assert parse_credential(b"Bearer x") is None
    assert parse_credential(b"AWS4-ECDSA-P256-SHA256 Credential=x/20150830/s3/aws4_request") is None


@pytest.mark.parametrize(
    ("host", "path", "source"),
    [
        ("examplebucket.s3.amazonaws.com", "/x", None),
        ("examplebucket.s3.us-east-1.amazonaws.com", "/x", b"/examplebucket/y"),
        ("examplebucket.s3.us-east-1.amazonaws.com", "/x", b"examplebucket/y?versionId=1"),
        ("s3.us-east-1.amazonaws.com", "/examplebucket/x", b"examplebucket%2Fy"),
        ("s3.amazonaws.com", "/examplebucket", None),
        ("minio.test", "/examplebucket/x", None),
    ],
)
def test_a_key_signs_for_its_bucket(host: str, path: str, source: bytes | None) -> None:
    headers = [] if source is None else [(b"X-Amz-Copy-Source", source)]
    assert explain_misdirection(S3, said(), host, path, headers) is None


@pytest.mark.parametrize(
    ("host", "path", "source"),
    [
        ("evil.s3.amazonaws.com", "/examplebucket/x", None),
        ("s3-evil.s3.amazonaws.com", "/examplebucket/x", None),
        ("s3.us-east-1.amazonaws.com", "/evil/examplebucket", None),
        ("s3.us-east-1.amazonaws.com", "/", None),
        ("s3.us-east-1.amazonaws.com", "//examplebucket/x", None),
        ("s3.us-east-1.amazonaws.com", "/examplebucket%2Fx", None),
        ("examplebucket.minio.test", "/evil/x", None),
        ("examplebucket.s3.amazonaws.com", "/x", b"/evil/examplebucket"),
        ("examplebucket.s3.amazonaws.com", "/x", b"evil%2Fx"),
        ("examplebucket.s3.amazonaws.com", "/x", b"arn:aws:s3:us-east-1:1:accesspoint/examplebucket/object/x"),
    ],
)
def test_a_key_signs_for_no_other_bucket_nor_copies_from_one(host: str, path: str, source: bytes | None) -> None:
    for name in (b"X-Amz-Copy-Source", b"x_amz_copy_source"):
        headers = [] if source is None else [(name, source)]
        assert "bucket" in (explain_misdirection(S3, said(), host, path, headers) or "")


@pytest.mark.parametrize("other", [said("sts"), said("s3-outposts"), said(region="eu-west-1"), b"Bearer x"])
def test_a_key_signs_for_no_other_service_or_region(other: bytes) -> None:
    assert "s3 in us-east-1 only" in (explain_misdirection(S3, other, "s3.amazonaws.com", "/examplebucket/x", []) or "")


def test_the_declared_body_hash_counts_at_s3_only() -> None:
    digest = compute_digest(b"body")
    for value in (digest, b"UNSIGNED-PAYLOAD"):
        assert read_declared_digest(S3, [(b"x-amz-content-sha256", value)]) == value
        assert read_declared_digest(SIGNER, [(b"x-amz-content-sha256", value)]) == b""
    for values in ((), (b"x",), (digest, digest), (digest.upper(),)):
        assert read_declared_digest(S3, [(b"x-amz-content-sha256", value) for value in values]) == b""


BUCKETS = "s3.us-east-1.amazonaws.com"
KEY = LiveGrant("k", Grant("aws", BUCKETS), P, "sigv4", S3)
QUEUE = LiveGrant("k", Grant("aws", "sqs.us-east-1.amazonaws.com"), P, "sigv4", SigV4Signer("AKID", "sqs", "us-east-1"))


def bucket(
    *headers: tuple[bytes, bytes], method: str = "GET", path: str = "/examplebucket/x", query: bytes = b""
) -> Outgoing:
    return asks(*headers, method=method, path=path, query=query, host=BUCKETS)


def signs(service: str = "s3") -> tuple[bytes, bytes]:
    return b"Authorization", said(service)


def go(out: Outgoing, one: LiveGrant, body: bytes = b"") -> tuple[OutgoingRequest, dict[bytes, bytes]]:
    made = plan_injection(out, [one])
    assert isinstance(made, InjectionPlan), made
    values = dict.fromkeys(list_needed_grants(made), S3_SECRET)
    done = apply(made, out, body, values)
    assert isinstance(done, OutgoingRequest), done
    assert all(name.lower() != b"authorization" for name, _ in done.headers)
    headers = sign_request(made, out, done, done.headers, values, AT)
    assert P not in b"".join(value for _, value in headers)
    return done, {name.lower(): value for name, value in headers}


def test_a_request_signed_with_the_placeholder_is_signed_again_with_the_key() -> None:
    done, headers = go(bucket(signs(), (b"X-Amz-Content-Sha256", EMPTY), (b"x-amz-meta-a", b"1")), KEY)
    assert headers[b"authorization"].startswith(
        b"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20150830/us-east-1/s3/"
    )
    assert b"x-amz-meta-a" in headers[b"authorization"]
    assert headers[b"x-amz-date"] == AT.encode()
    assert done.used == ("aws in header authorization",)
    assert done.ids == {"k"}


def test_bodies_of_s3_are_not_needed_and_others_are() -> None:
    said_body = (b"x-amz-content-sha256", compute_digest(b"body"))
    at_s3 = plan_injection(bucket(signs(), said_body, method="PUT"), [KEY])
    unsaid = plan_injection(bucket(signs(), method="PUT"), [KEY])
    elsewhere = asks(signs("sqs"), said_body, method="POST", path="/", host=QUEUE.grant.host)
    other = plan_injection(elsewhere, [QUEUE])
    assert isinstance(at_s3, InjectionPlan)
    assert isinstance(unsaid, InjectionPlan)
    assert isinstance(other, InjectionPlan)
    assert (at_s3.whole, unsaid.whole, other.whole) == (False, True, True)
    first, second = (go(elsewhere, QUEUE, body)[1][b"authorization"] for body in (b"a", b"b"))
    assert first != second


def test_an_unsigned_request_is_not_signed() -> None:
    made = plan_injection(bucket(), [KEY])
    assert isinstance(made, InjectionPlan)
    assert list_needed_grants(made) == ()
    assert made.signing is None
    assert not made.whole


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (
            bucket(query=b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + P + b"%2F20150830&X-Amz-Signature=0"),
            PRESIGNED,
        ),
        (bucket(query=b"AWSAccessKeyId=" + P + b"&Signature=0&Expires=9"), PRESIGNED),
        (bucket(signs(), query=b"X-Amz-Algorithm=AWS4-HMAC-SHA256"), PRESIGNED),
        (bucket(signs(), (b"x-amz-content-sha256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), method="PUT"), STREAMED),
        (bucket(signs("sts")), "the granted key may sign for s3 in us-east-1 only"),
        (bucket((b"Authorization", said(region="eu-west-1"))), "the granted key may sign for s3 in us-east-1 only"),
        (bucket(signs(), path="/evil/x"), "the granted key may sign for the bucket examplebucket only"),
        (
            bucket(signs(), (b"x-amz-copy-source", b"evil/x")),
            "the granted key may sign for the bucket examplebucket only",
        ),
    ],
)
def test_what_cannot_be_signed_is_refused_with_the_reason_and_without_an_alarm(out: Outgoing, why: str) -> None:
    assert plan_injection(out, [KEY]) == Refusal(why)


@pytest.mark.parametrize(
    "out",
    [
        bucket((b"Authorization", b"Bearer " + P)),
        bucket((b"Authorization", b"AWS4-HMAC-SHA256 " + P)),
        bucket((b"Authorization", said() + b", Note=" + P)),
        bucket((b"Authorization", said() + b", Note=" + OTHER)),
        bucket((b"Authorization", said(key=OTHER))),
        bucket(signs(), signs()),
        bucket((b"X-Authorization", said())),
        bucket(query=b"key=" + P),
        asks(signs(), host="evil.s3.amazonaws.com"),
        asks(signs(), host=BUCKETS, port=8443),
        asks(signs(), host=BUCKETS, scheme="http", port=80),
    ],
    ids=lambda out: type(out).__name__,
)
def test_the_placeholder_of_a_key_anywhere_else_is_an_alarm(out: Outgoing) -> None:
    refusal = plan_injection(out, [replace(KEY, grant=replace(KEY.grant, foreign=True))])
    assert isinstance(refusal, Refusal)
    assert refusal.signs[0].what == "placeholder"


def test_a_desk_signs_with_no_key_of_its_own() -> None:
    for out in (bucket((b"Authorization", said(key=b"AKIDMINE"))), bucket(query=b"X-Amz-Credential=AKIDMINE%2F1")):
        refusal = plan_injection(out, [KEY])
        assert isinstance(refusal, Refusal)
        assert refusal.signs[0].what == "foreign"


def test_a_token_is_never_put_into_a_signature_nor_a_key_anywhere() -> None:
    assert isinstance(
        plan_injection(asks((b"Authorization", said())), [held(SecretPlace("bearer", swap=True), foreign=True)]),
        Refusal,
    )
    placed = LiveGrant(
        "k", Grant("aws", ERP, places=(SecretPlace("header", "X-Key"), SecretPlace("bearer"))), P, "sigv4", S3
    )
    for one in (placed, replace(placed, signer=None)):
        made = plan_injection(asks(path=f"/{S3.bucket}/x"), [one])
        assert isinstance(made, InjectionPlan)
        assert list_needed_grants(made) == ()
    assert isinstance(plan_injection(asks((b"X-Key", P)), [placed]), Refusal)
    assert isinstance(plan_injection(asks((b"Authorization", said())), [replace(placed, signer=None)]), Refusal)


def test_a_placeholder_in_a_body_to_be_signed_does_not_leave() -> None:
    out = asks(signs("sqs"), IS_FORM, method="POST", path="/", host=QUEUE.grant.host)
    made = plan_injection(out, [QUEUE])
    assert isinstance(made, InjectionPlan)
    assert isinstance(apply(made, out, b"Message=" + P, {"k": S3_SECRET}), Refusal)
    packed = asks(signs("sqs"), (b"Content-Encoding", b"gzip"), method="POST", path="/", host=QUEUE.grant.host)
    assert isinstance(plan_injection(packed, [QUEUE]), Refusal)
    stored = bucket(signs(), (b"Content-Encoding", b"gzip"), (b"x-amz-content-sha256", EMPTY), method="PUT")
    assert isinstance(plan_injection(stored, [KEY]), InjectionPlan)


@pytest.mark.parametrize(
    "written",
    [
        said() + b" " * LONGEST_AUTHORIZATION,
        b"AWS4-HMAC-SHA256" + b" " * 1000 + said().partition(b" ")[2],
        b"AWS4-HMAC-SHA256 " + b"Credential=" * 100,
        said(key=b"k" * 129),
    ],
)
def test_an_authorization_that_no_client_writes_is_not_read_as_a_signature(written: bytes) -> None:
    assert parse_credential(written) is None
    assert parse_credential(said()) is not None
