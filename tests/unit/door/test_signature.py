from __future__ import annotations

import pytest

from hotdesk.door.signature import Signer, key_of, misdirected, sign, unsignable

SECRET = b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
AT = "20150830T123600Z"
HOST = (b"Host", b"example.amazonaws.com")
SIGNER = Signer("AKIDEXAMPLE", SECRET, "service", "us-east-1")
S3 = Signer("AKIAIOSFODNN7EXAMPLE", b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "s3", "us-east-1", "examplebucket")


def signature(headers: list[tuple[bytes, bytes]]) -> bytes:
    return headers[-1][1].rpartition(b"Signature=")[2]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", b"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (b"Param2=value2&Param1=value1", b"b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ],
)
def test_the_published_examples_come_out(query: bytes, expected: bytes) -> None:
    assert signature(sign(SIGNER, "GET", "/", query, [HOST], b"", AT)) == expected


def test_the_published_example_of_s3_comes_out() -> None:
    headers = [(b"Host", b"examplebucket.s3.amazonaws.com")]
    made = sign(S3, "GET", "/", b"lifecycle", headers, b"", "20130524T000000Z")
    assert signature(made) == b"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"


def test_what_the_desk_signed_with_is_replaced() -> None:
    sent = [
        HOST,
        (b"authorization", b"AWS4-HMAC-SHA256 x"),
        (b"X_Amz_Security_Token", b"theirs"),
        (b"x-amz-date", b"1"),
    ]
    made = sign(Signer("K", SECRET, "s3", "eu", token=b"ours"), "PUT", "/a", b"", sent, None, AT)
    assert [value for name, value in made if name.lower().replace(b"_", b"-") == b"x-amz-security-token"] == [b"ours"]
    assert (b"X-Amz-Content-Sha256", b"UNSIGNED-PAYLOAD") in made
    assert sum(name.lower() == b"authorization" for name, _ in made) == 1
    assert SECRET not in b"".join(value for _, value in made)
    assert SECRET.decode() not in repr(SIGNER)


def test_the_body_and_the_query_are_part_of_what_is_signed() -> None:
    made = {
        signature(sign(SIGNER, "POST", "/", query, [HOST], body, AT)) for query in (b"", b"a=1") for body in (b"", b"x")
    }
    assert len(made) == 4


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([], b"a=1&X-Amz-Signature=abc"),
        ([], b"x-amz-credential=abc"),
        ([], b"X%2DAmz-Algorithm=AWS4-HMAC-SHA256"),
        ([(b"X-Amz-Content-SHA256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD")], b""),
        ([(b"x-amz-content-sha256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER")], b""),
        ([(b"X-Amz-Trailer", b"x-amz-checksum-crc32")], b""),
    ],
)
def test_presigned_and_streamed_requests_are_refused_with_a_reason(
    headers: list[tuple[bytes, bytes]], query: bytes
) -> None:
    assert unsignable(headers, query)
    assert unsignable([HOST], b"list-type=2") is None


def test_a_key_signs_for_its_service_region_and_bucket_only() -> None:
    said = b"AWS4-HMAC-SHA256 Credential=hotdesk-secret-x/20150830/us-east-1/s3/aws4_request, Signature=a"
    assert key_of(said) == (b"hotdesk-secret-x", "s3", "us-east-1")
    assert key_of(b"Bearer x") is None
    assert misdirected(S3, "s3", "us-east-1", "examplebucket.s3.amazonaws.com", "/x") is None
    assert misdirected(S3, "s3", "us-east-1", "s3.us-east-1.amazonaws.com", "/examplebucket/x") is None
    assert misdirected(S3, "sts", "us-east-1", "examplebucket.s3.amazonaws.com", "/x")
    assert misdirected(S3, "s3", "eu-west-1", "examplebucket.s3.amazonaws.com", "/x")
    assert misdirected(S3, "s3", "us-east-1", "s3.us-east-1.amazonaws.com", "/evil/examplebucket")
    assert misdirected(S3, "s3", "us-east-1", "evil.s3.amazonaws.com", "/examplebucket/x")
