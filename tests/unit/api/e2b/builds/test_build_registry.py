"""Tests of registries: which ones a reference may name, and what the desk that downloads from one may reach."""

from __future__ import annotations

import pytest

from hotdesk.api.e2b.builds.inside import StepError
from hotdesk.api.e2b.builds.registry import PullOutput, RegistryImage, build_scope, find_registry, split_registry
from hotdesk.api.settings import read

LISTED = ("registry.example.com", "http://127.0.0.1:5000", "https://hub.example.com:8443")
DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("registry.example.com/a/b:1", ("https", "registry.example.com", 443, "a/b", "1")),
        ("registry.example.com/a", ("https", "registry.example.com", 443, "a", "latest")),
        (f"registry.example.com/a@{DIGEST}", ("https", "registry.example.com", 443, "a", DIGEST)),
        ("127.0.0.1:5000/a:x", ("http", "127.0.0.1", 5000, "a", "x")),
        ("hub.example.com:8443/a", ("https", "hub.example.com", 8443, "a", "latest")),
    ],
)
def test_a_reference_means_a_registry_that_is_listed(reference: str, found: tuple[str, str, int, str, str]) -> None:
    meant = find_registry(reference, LISTED)
    assert meant is not None
    assert (meant.scheme, meant.host, meant.port, meant.repository, meant.version) == found


@pytest.mark.parametrize(
    "reference",
    ["other.example.com/a", "registry.example.com:444/a", "hub.example.com/a", "127.0.0.1/a", "127.0.0.1:5001/a",
     "ubuntu", "registry.example.com/../a", "registry.example.com/a:b:c", "registry.example.com/A",
     "registry.example.com/a?x", "registry.example.com/a@sha256:1", "evil.test/registry.example.com/a",
     "registry.example.com@evil.test/a"],
)  # fmt: skip
def test_any_other_reference_means_no_registry(reference: str) -> None:
    assert find_registry(reference, LISTED) is None


def test_a_short_name_means_docker_hub_if_it_is_listed() -> None:
    meant = find_registry("ubuntu:22.04", ("registry-1.docker.io",))
    assert meant == RegistryImage("https", "registry-1.docker.io", 443, "library/ubuntu", "22.04")
    assert find_registry("docker.io/acme/a", ("registry-1.docker.io",)) == RegistryImage(
        "https", "registry-1.docker.io", 443, "acme/a", "latest"
    )


def test_the_downloading_desk_reaches_one_host_and_has_no_password() -> None:
    found = RegistryImage("https", "registry.example.com", 443, "a", "1")
    scope = build_scope(found, {"type": "registry", "username": "me", "password": "secret-of-mine"})
    assert [rule.host for rule in scope.rules if rule.verdict == "allow"] == ["registry.example.com"]
    assert all(rule.methods == ("GET", "HEAD") for rule in scope.rules if rule.verdict == "allow")
    assert not scope.anywhere
    assert not scope.may_ask
    assert scope.values["registry"].startswith(b"Basic ")
    assert "secret-of-mine" not in repr(scope)


@pytest.mark.parametrize(
    ("scheme", "credentials"),
    [("http", {"type": "registry", "username": "me", "password": "secret"}), ("https", {"type": "aws"}),
     ("https", {"type": "gcp", "serviceAccountJson": "{}"}), ("https", {"type": "registry", "username": 1})],
)  # fmt: skip
def test_credentials_that_cannot_be_used_are_refused(scheme: str, credentials: dict[str, object]) -> None:
    with pytest.raises(StepError):
        build_scope(RegistryImage(scheme, "registry.example.com", 443, "a", "1"), credentials)  # type: ignore[arg-type]


def test_registries_are_read_from_settings() -> None:
    assert read({"registries": list(LISTED)}).registries == LISTED
    for each in ("ftp://a", "https://a/b", "a b", "https://u@a", ""):
        with pytest.raises(Exception, match="registries"):
            read({"registries": [each]})
    with pytest.raises(ValueError, match="a registry must be written like"):
        split_registry("https://a/b")


class Pieces:
    """Returns a program's output in pieces."""

    def __init__(self, *pieces: tuple[str, bytes]) -> None:
        self.pieces = list(pieces)

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop(0)


async def test_output_of_the_program_is_bounded_and_checked() -> None:
    line = f'{{"digest": "{DIGEST}"}}\nrest'.encode()
    output = PullOutput(Pieces(("stdout", line[:10]), ("stderr", b"x"), ("stdout", line[10:])))
    assert await output.find_digest() == DIGEST
    assert output.rest == b"rest"
    for hostile in (b"{}\n", b'{"digest": "sha256:../../x"}\n', b"x" * 5000, b""):
        with pytest.raises(StepError):
            await PullOutput(Pieces(("stdout", hostile), ("stderr", b"\x1b[31mwhy"))).find_digest()
