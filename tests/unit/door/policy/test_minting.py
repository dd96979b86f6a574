from __future__ import annotations

import pytest
from tests.outgoing import P, asks

from hotdesk.brief import Grant
from hotdesk.door.grant import LiveGrant, Refusal
from hotdesk.door.policy.minting import LONGEST_PATH, TOO_LONG, describe_minting
from hotdesk.door.secrets.inject import InjectionPlan, plan_injection


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
    assert describe_minting(host, method, path, query)
    out = asks(method=method, path=path, query=query, host=host)
    grant = LiveGrant("g", Grant("t", host, foreign=True), P)
    assert isinstance(plan_injection(out, [grant]), Refusal)
    assert isinstance(plan_injection(out, [grant], minting_named=True), InjectionPlan)
    assert isinstance(plan_injection(out, []), InjectionPlan)


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
    assert describe_minting(host, method, path, b"") is None


@pytest.mark.parametrize("verb", ["list", "regenerate"])
@pytest.mark.parametrize("what", ["Keys", "AccountSas", "Key", "ClusterAdminCredential", "Secrets", "KeyKeyKey"])
def test_keys_of_azure_are_known_by_the_last_part_of_the_path(verb: str, what: str) -> None:
    host = "management.azure.com"
    assert describe_minting(host, "POST", f"/x/list/{verb}{what}", b"api-version=1") == "Azure keys"
    assert describe_minting(host, "POST", f"/x/{verb}{what}/1", b"") is None
    assert describe_minting(host, "POST", f"/x/{verb}{what}1", b"") is None
    assert describe_minting(host, "POST", f"/x/{verb}Things", b"") is None


def test_a_path_too_long_to_be_judged_gets_no_secret() -> None:
    path = "/" + "%61" * (LONGEST_PATH - 1)
    assert describe_minting("erp.test", "GET", path, b"") is None
    assert describe_minting("erp.test", "GET", path + "a", b"") == TOO_LONG
    out = asks(path=path + "a")
    assert isinstance(plan_injection(out, [LiveGrant("g", Grant("t", "erp.test"), P)]), Refusal)
    assert isinstance(plan_injection(out, []), InjectionPlan)
