"""Tests of workload tokens: the door attaches a signed statement of which sandbox it is; anyone can verify it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from e2b import InvalidArgumentException, Sandbox, SandboxException, Secret

from tests.e2e.server.conftest import Served, served
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
HOST = "api.erp.test"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream(tmp_path_factory.mktemp("upstream"), HOST) as found:
        yield found


@pytest.fixture(scope="module")
def server(home: Path, outside: Upstream) -> Iterator[Served]:
    door = f'[door]\nca = "{outside.ca}"\nnames = {{"{HOST}" = "{outside.address}"}}\n'
    with served(home / f"identity-{time.monotonic_ns()}", config=f"{door}[serve]\nready = {{}}\n") as found:
        yield found


def network(headers: Any) -> Any:
    return {"allow_out": [HOST], "deny_out": ["0.0.0.0/0"], "rules": {HOST: [{"transform": headers}]}}


def as_bearer(context: Any) -> dict[str, Any]:
    """Attach the token `erp`, as E2B's documentation does."""
    return {"headers": {"Authorization": f"Bearer {context.iam.tokens['erp']}", "X-Kind": "svid"}}


def verify(server: Served, token: str, audience: str) -> dict[str, Any]:
    """Verify a token as a relying party does: with the keys the issuer publishes."""
    issuer = str(jwt.decode(token, options={"verify_signature": False})["iss"])
    assert issuer == f"{server.url}/identity/default"
    found = httpx.get(f"{issuer}/.well-known/openid-configuration").raise_for_status().json()
    assert found["issuer"] == issuer
    key = jwt.PyJWKClient(found["jwks_uri"]).get_signing_key_from_jwt(token)
    claims: dict[str, Any] = jwt.decode(token, key, ["ES256"], audience=audience, issuer=issuer)
    return claims


def test_a_request_identifies_its_sandbox(server: Served, outside: Upstream) -> None:
    iam: Any = {"tokens": {"erp": Secret.iam_token(audience="erp.example", token_type="JWT-SVID")}}
    sandbox = Sandbox.create(network=network(as_bearer), iam=iam, **server.e2b)
    try:
        said = sandbox.commands.run(f"curl -s https://{HOST}/; env; cat /proc/*/environ 2>/dev/null || true")
        scheme, _, token = str(outside.seen[-1].header("authorization")).partition(" ")
        assert (scheme, outside.seen[-1].header("x-kind")) == ("Bearer", "svid")
        assert token not in said.stdout
        claims = verify(server, token, "erp.example")
        assert claims["sub"] == f"spiffe://127.0.0.1/identity/default/sandbox/{sandbox.sandbox_id}"
        assert claims["exp"] - claims["iat"] == 600
        with pytest.raises(jwt.InvalidAudienceError):
            verify(server, token, "somebody-else")
        sandbox.update_network(network(lambda ctx: {"headers": {"X-Token": f"svid={ctx.iam.tokens['erp']};v=1"}}))
        sandbox.commands.run(f"curl -s https://{HOST}/")
        assert outside.seen[-1].header("authorization") is None
        text = str(outside.seen[-1].header("x-token"))
        assert (text[:5], text[-4:]) == ("svid=", ";v=1")
        assert verify(server, text[5:-4], "erp.example")["sub"] == claims["sub"]
        with pytest.raises(SandboxException, match=r"400.*has no token 'other'"):
            sandbox.update_network(network(lambda ctx: {"headers": {"X-Token": ctx.iam.tokens["other"]}}))
    finally:
        sandbox.kill()


@pytest.mark.long
def test_an_unavailable_token_is_refused(server: Served) -> None:
    for token in ({"audience": "a", "token_type": "X509-SVID"}, {"audience": "", "token_type": "JWT-SVID"}):
        iam: Any = {"tokens": {"erp": token}}
        with pytest.raises(SandboxException, match="400"):
            Sandbox.create(iam=iam, **server.e2b)
    with pytest.raises(InvalidArgumentException, match="not registered"):
        Sandbox.create(network=network(as_bearer), **server.e2b)


def test_a_caller_without_a_key_gets_the_public_key_and_nothing_else(server: Served) -> None:
    with httpx.Client(base_url=server.url) as client:
        keys = client.get("/identity/default/jwks.json").json()["keys"]
        assert all(set(key) == {"kty", "crv", "alg", "use", "kid", "x", "y"} for key in keys)
        for path in ("nobody/jwks.json", "default", "default/identity.key", "..%2f..", "%2e%2e/jwks.json"):
            assert client.get(f"/identity/{path}").status_code in (400, 401, 404)
