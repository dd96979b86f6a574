"""Requests that create new credentials at known providers: a grant alone does not cover them. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

ANY_HOST = ".*"
AWS = r"\.amazonaws\.com(\.cn)?"
GITHUB = r"api\.github\.com"
_AZURE_KEYS = r".*/(list|regenerate)(?=[a-z]*(key|secret|credential|sas))[a-z]*+"
"""The lookahead does not backtrack: repeating `key` in a path does not increase the time."""
LONGEST_PATH = 2048
TOO_LONG = "the path is too long to check"
_MINTING: tuple[tuple[str, str, str, str], ...] = (
    ("AWS STS", r"sts(\.[a-z0-9-]+)?" + AWS, "*", r"/.*"),
    ("AWS SSO", r"(oidc|portal\.sso)\.[a-z0-9-]+" + AWS, "*", r"/(token|federation/credentials).*"),
    ("AWS IAM", r"iam(\.[a-z0-9-]+)?" + AWS, "POST", r"/.*"),
    ("AWS IAM", r"iam(\.[a-z0-9-]+)?" + AWS, "GET", r".*[?&]action=(create|reset|upload|update).*"),
    ("AWS CodeArtifact", r"codeartifact\.[a-z0-9-]+" + AWS, "*", r"/v1/authorization-token.*"),
    ("GitHub tokens", GITHUB, "*", r"/(app/installations/.*/access_tokens|applications/.*/tokens?.*|authorizations.*)"),
    ("GitHub keys", GITHUB, "POST", r"/(user/(gpg_|ssh_signing_)?keys|repos/[^/]+/[^/]+/keys)"),
    ("GitHub runners", GITHUB, "POST", r"/.*/actions/runners/(registration-token|remove-token|generate-jitconfig)"),
    ("GitHub tokens", ANY_HOST, "*", r"/api/v3/(app/installations/.*/access_tokens|applications/.*|authorizations.*)"),
    ("GitHub keys", ANY_HOST, "POST", r"/api/v3/(.*/keys|.*/actions/runners/(registration|remove)-token)"),
    ("GitHub", r"github\.com", "*", r"/(login/oauth/access_token|settings/(tokens|personal-access|keys|apps).*)"),
    ("GitLab tokens", ANY_HOST, "*", r"/api/v4/.*(access|impersonation|deploy|feed)_tokens?(/.*)?"),
    ("GitLab keys", ANY_HOST, "POST", r"/api/v4/(.*/)?(deploy_keys|keys|runners|triggers)"),
    ("GitLab tokens", ANY_HOST, "*", r"/-/(user_settings|profile)/personal_access_tokens.*"),
    ("Gitea tokens", ANY_HOST, "POST", r"/api/v1/users/[^/]+/tokens"),
    ("Google tokens", r".*\.googleapis\.com", "*", r".*:(generateaccesstoken|generateidtoken|signblob|signjwt)"),
    ("Google keys", r".*\.googleapis\.com", "POST", r".*/(serviceaccounts/[^/]+/keys|hmackeys|keys)"),
    ("Google tokens", r"sts\.googleapis\.com", "*", r"/.*"),
    ("Kubernetes TokenRequest", ANY_HOST, "POST", r".*/api/v1/namespaces/[^/]+/serviceaccounts/[^/]+/token"),
    ("Kubernetes certificates", ANY_HOST, "POST", r".*/apis/certificates\.k8s\.io/[^/]+/certificatesigningrequests"),
    ("Azure keys", r"management\.azure\.com", "POST", _AZURE_KEYS),
    ("Azure keys", r"graph\.microsoft\.com", "POST", r".*/(addpassword|addkey)"),
    ("Slack tokens", r"(.*\.)?slack\.com", "*", r"/api/(oauth\.|openid\.connect\.token|tooling\.tokens\.).*"),
    ("npm tokens", ANY_HOST, "*", r"/-/npm/v1/tokens(/.*)?"),
    ("PyPI tokens", ANY_HOST, "*", r"/_/oidc/.*"),
    ("Docker Hub tokens", r"hub\.docker\.com", "*", r"/v2/(access-tokens|users/login|auth/token).*"),
    ("Vault tokens", ANY_HOST, "*", r"/v1/(auth/token/create.*|sys/wrapping/.*|[^/]+/(creds|sts)/.*)"),
    ("Cloudflare tokens", r"api\.cloudflare\.com", "POST", r"/client/v4/(user|accounts/[^/]+)/tokens.*"),
    ("Stripe keys", r"api\.stripe\.com", "POST", r"/v1/ephemeral_keys"),
    ("OpenAI keys", r"api\.openai\.com", "POST", r"/v1/(organization/.*(api_keys|service_accounts)|realtime/.*)"),
)
"""Requests that create credentials: provider, host, method, path with query (all lower case except the method)."""


def describe_minting(host: str, method: str, path: str, query: bytes) -> str | None:
    """Describe the credentials a request would create at a known provider; a path too long to check counts as one."""
    decoded = unquote_to_bytes(path).decode("latin-1").lower().rstrip("/") or "/"
    if len(decoded) > LONGEST_PATH:
        return TOO_LONG
    with_query = decoded + ("?" + unquote_to_bytes(query).decode("latin-1").lower() if query else "")
    entries, any_of = _list_minting(host)
    if not any_of.fullmatch(decoded) and not (query and any_of.fullmatch(with_query)):
        return None
    for what, methods, pattern in entries:
        if methods in ("*", method) and (pattern.fullmatch(decoded) or (query and pattern.fullmatch(with_query))):
            return what
    return None


@lru_cache(maxsize=256)
def _list_minting(host: str) -> tuple[tuple[tuple[str, str, re.Pattern[str]], ...], re.Pattern[str]]:
    """List the requests that create credentials at a host, and one pattern for them all: few requests match it."""
    here = [(what, methods, pattern) for what, hosts, methods, pattern in _MINTING if re.fullmatch(hosts, host)]
    any_of = re.compile("|".join(f"(?:{pattern})" for _, _, pattern in here), re.DOTALL)
    return tuple((what, methods, re.compile(pattern, re.DOTALL)) for what, methods, pattern in here), any_of
