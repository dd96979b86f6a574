"""Tests of parsing what a request means: one canonical form, or a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.brief.data import Scheme
from hotdesk.door.policy.target import Authority, Target, UnclearTargetError, connect, is_override, read

INSIDE = Authority("example.test", 443)


def asked(path: str, method: str = "GET") -> Target:
    return read(method, path, ["example.test"], INSIDE)


@pytest.mark.parametrize(
    ("line", "hosts", "inside", "target"),
    [
        ("/", ["example.test"], INSIDE, Target("https", "example.test", 443, "GET", "/")),
        (b"/a?b=c", [b"EXAMPLE.test."], INSIDE, Target("https", "example.test", 443, "GET", "/a", "b=c")),
        ("/", ["example.test:443"], INSIDE, Target("https", "example.test", 443, "GET", "/")),
        ("https://example.test/x", ["example.test"], INSIDE, Target("https", "example.test", 443, "GET", "/x")),
        ("/", ["a.test:8443"], Authority("a.test", 8443), Target("https", "a.test", 8443, "GET", "/")),
        ("http://example.test", ["example.test"], None, Target("http", "example.test", 80, "GET", "/")),
        ("HTTP://Example.test:80/x", ["example.test"], None, Target("http", "example.test", 80, "GET", "/x")),
        ("http://example.test?a", ["example.test"], None, Target("http", "example.test", 80, "GET", "/", "a")),
        ("http://a.test:81/", ["a.test:81"], None, Target("http", "a.test", 81, "GET", "/")),
        ("http://[FD00:0::1]:81/", ["[fd00::1]:81"], None, Target("http", "fd00::1", 81, "GET", "/")),
        ("http://10.0.0.1/", ["10.0.0.1"], None, Target("http", "10.0.0.1", 80, "GET", "/")),
        ("http://a_b.test/?", ["a_b.test"], None, Target("http", "a_b.test", 80, "GET", "/")),
    ],
)
def test_a_request_is_read(
    line: str | bytes, hosts: list[str | bytes], inside: Authority | None, target: Target
) -> None:
    assert read("GET", line, hosts, inside) == target


@pytest.mark.parametrize(
    ("line", "hosts", "inside"),
    [
        ("/", [], INSIDE),
        ("/", ["example.test", "example.test"], INSIDE),
        ("/", ["other.test"], INSIDE),
        ("/", ["example.test:80"], INSIDE),
        ("/", ["example.test"], Authority("example.test", 8443)),
        ("/", ["example.test, other.test"], INSIDE),
        ("/", [""], INSIDE),
        ("/", ["example.test"], None),
        ("*", ["example.test"], INSIDE),
        ("", ["example.test"], INSIDE),
        ("example.test:443", ["example.test"], INSIDE),
        ("https://other.test/", ["example.test"], INSIDE),
        ("https://other.test/", ["other.test"], INSIDE),
        ("https://example.test:8443/", ["example.test:8443"], INSIDE),
        ("http://example.test/", ["example.test"], INSIDE),
        ("https://example.test/", ["example.test"], None),
        ("ftp://example.test/", ["example.test"], None),
        ("http:///x", ["example.test"], None),
        ("http://user@example.test/", ["example.test"], None),
        ("http://user:pass@example.test/", ["example.test"], None),
        ("http://example.test:/", ["example.test"], None),
        ("http://example.test:080/", ["example.test"], None),
        ("http://example.test:0/", ["example.test:0"], None),
        ("http://example.test:65536/", ["example.test:65536"], None),
        ("http://exa%6dple.test/", ["example.test"], None),
        ("http://example.test\\@evil.test/", ["example.test"], None),
        ("http://example..test/", ["example..test"], None),
        ("http://example.test../", ["example.test.."], None),
        ("http://.test/", [".test"], None),
        ("http://2130706433/", ["2130706433"], None),
        ("http://0x7f.1/", ["0x7f.1"], None),
        ("http://127.1/", ["127.1"], None),
        ("http://0177.0.0.1/", ["0177.0.0.1"], None),
        ("http://127.0.0.1./", ["127.0.0.1."], None),
        ("http://1.2.3.256/", ["1.2.3.256"], None),
        ("http://[fe80::1%25eth0]/", ["[fe80::1%25eth0]"], None),
        ("http://[::ffff:127.0.0.1]/", ["[::ffff:127.0.0.1]"], None),
        ("http://[127.0.0.1]/", ["[127.0.0.1]"], None),
        ("http://b\u00fccher.test/", ["b\u00fccher.test"], None),
        (b"http://b\xfccher.test/", [b"b\xfccher.test"], None),
        ("http://\u212aelvin.test/", ["kelvin.test"], None),
        ("http://-a.test/", ["-a.test"], None),
        ("http://" + "a" * 64 + ".test/", ["a" * 64 + ".test"], None),
        ("http://" + "a." * 130 + "test/", ["a." * 130 + "test"], None),
        ("http://example.test/#x", ["example.test"], None),
        ("http://example.test#/x", ["example.test"], None),
        ("/?a#b", ["example.test"], INSIDE),
        ("/?a b", ["example.test"], INSIDE),
        ("/?a\tb", ["example.test"], INSIDE),
        ("/?\u00e9", ["example.test"], INSIDE),
        ("/" + "a" * 20000, ["example.test"], INSIDE),
    ],
)
def test_an_ambiguous_request_is_refused(line: str | bytes, hosts: list[str | bytes], inside: Authority | None) -> None:
    with pytest.raises(UnclearTargetError):
        read("GET", line, hosts, inside)


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/%7euser/%41", b"/~user/A"),
        ("/a%c3%a9", b"/a%C3%A9"),
        ("/a/", b"/a/"),
        ("/a;b=c/d:e@f", b"/a;b=c/d:e@f"),
        ("/@types%2fnode", b"/@types%2Fnode"),
        ("/a%2f", b"/a%2F"),
        ("/a%20b%3f", b"/a%20b%3F"),
        ("/...", b"/..."),
        ("/a..b/.well-known", b"/a..b/.well-known"),
        ("/100%25", b"/100%25"),
        ("/a?b=%zz;c", b"/a?b=%zz;c"),
    ],
)
def test_the_request_that_is_judged_is_the_one_sent(path: str, sent: bytes) -> None:
    assert asked(path).encode_target() == sent


@pytest.mark.parametrize(
    "path",
    [
        "/..", "/.", "/a/../b", "/a/./b", "/a/..", "/%2e%2e/a", "/%2E/a", "/.%2e", "/a/..;/b", "/a/..;x=1/b", "/a/.;/b",
        "/a/%2e%2e%3b/b", "/a/..%20/b", "/a%2f..%2fb", "/a/..%2fb", "/a%2f/b", "//", "//evil.test/x", "/a//b",
        "/a\\b", "/a%5cb", "/a%00", "/a%0d%0ab", "/a%7f", "/a%1f", "/%252e%252e", "/a%252fb", "/%25%32%66", "/a%",
        "/a%2",
        "/a%zz", "/a b", "/a\x00b", "/a\x7fb", "/a\"b", "/<a>", "/\u00e9", "/%c0%af", "/%c0%ae%c0%ae/a", "/%ff",
        "/a\r\nb",
    ],
)  # fmt: skip
def test_an_ambiguous_path_is_refused(path: str) -> None:
    with pytest.raises(UnclearTargetError):
        asked(path)


@pytest.mark.parametrize(
    "method", ["get", "GET ", "", "GE T", "G\0", "CONNECT", "TRACE", "TRACK", "A" * 33, "-A", "G\u00c9T"]
)
def test_a_method_is_in_capitals_and_opens_no_tunnel(method: str) -> None:
    with pytest.raises(UnclearTargetError):
        asked("/", method)


def test_inside_a_connect_plain_http_may_be_spoken() -> None:
    target = read("GET", "/chat", ["a.test"], Authority("a.test", 80), scheme="http")
    assert (target.url, target.authority) == ("http://a.test/chat", "a.test")


@pytest.mark.parametrize(
    ("line", "authority"),
    [
        ("example.test:443", Authority("example.test", 443)),
        (b"EXAMPLE.test.:8443", Authority("example.test", 8443)),
        ("[fd00::0:1]:443", Authority("fd00::1", 443)),
        ("10.0.0.1:1", Authority("10.0.0.1", 1)),
    ],
)
def test_a_connect_is_read(line: str | bytes, authority: Authority) -> None:
    assert connect(line) == authority


@pytest.mark.parametrize(
    "line",
    [
        "", "example.test", "example.test:", "example.test:0", "example.test:99999", ":443", "https://example.test:443",
        "example.test:443/x", "a@example.test:443", "[::1]", "::1:443", "[::1:443", "127.1:443", "0x7f000001:443",
        "/run/x.sock", "[fe80::1%lo]:443", "example.test:4a", "example.test:443:1", "*.example.test:443",
        "10.0.0.0/8:443",
    ],
)  # fmt: skip
def test_a_connect_needs_one_host_and_one_port(line: str) -> None:
    with pytest.raises(UnclearTargetError):
        connect(line)


@pytest.mark.parametrize(
    "header", ["X-HTTP-Method-Override", "x_original_url", "Forwarded", "X-Forwarded-Anything", "Via"]
)
def test_headers_that_change_what_a_request_means_are_recognised(header: str) -> None:
    assert is_override(header)


@pytest.mark.parametrize("header", ["Host", "Accept", "X-Api-Key", "Authorization"])
def test_other_headers_are_not_recognised_as_such(header: str) -> None:
    assert not is_override(header)


HOSTS = st.from_regex(r"[a-z0-9_-]{1,6}(\.[a-z0-9_-]{1,6}){0,2}", fullmatch=True) | st.ip_addresses().map(str)
ALPHABET = "/ab.%2eEfF5cC;:@~*+&=?\\ "


@pytest.mark.slow
@given(
    st.sampled_from(["GET", "POST", "PURGE"]), st.sampled_from(["http", "https"]), HOSTS,
    st.integers(1, 65535) | st.sampled_from([80, 443]), st.text(ALPHABET, max_size=24),
)  # fmt: skip
def test_what_is_sent_reads_as_the_same_request(method: str, scheme: Scheme, host: str, port: int, rest: str) -> None:
    name = f"[{host}]" if ":" in host else host
    try:
        inside = connect(f"{name}:{port}")
        target = read(method, f"/{rest}", [f"{name}:{port}"], inside, scheme)
    except UnclearTargetError:
        return
    again = Authority(target.host, target.port)
    assert read(target.method, target.encode_target(), [target.authority], again, scheme) == target
    if scheme == "http":
        assert read(method, f"http://{target.authority}{target.encode_target().decode()}", [target.authority]) == target


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=10))
def test_any_bytes_are_a_request_or_unclear(line: bytes, host: bytes, method: bytes) -> None:
    for inside in (None, INSIDE):
        try:
            target = read(method, line, [host], inside)
        except UnclearTargetError:
            continue
        assert target.host == target.host.lower()
