"""Workload tokens of sandboxes: their issuer, and the public keys for recipients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.responses import Response

from hotdesk.api.e2b.responses import E2bError, answer, make_unknown_route_error
from hotdesk.api.settings import Serving
from hotdesk.brief.data import WorkloadToken
from hotdesk.config import Config, get_tenant_settings
from hotdesk.keys.identity import read_key_set

if TYPE_CHECKING:
    from hotdesk.api.keys import ApiKeys

_CACHE = {"Cache-Control": "public, max-age=300"}


def build_tokens(serving: Serving, tenant: str, audiences: Mapping[str, str]) -> dict[str, WorkloadToken]:
    issuer = _find_issuer(serving, tenant)
    return {name: WorkloadToken(name, audience, issuer) for name, audience in audiences.items()}


def _find_issuer(serving: Serving, tenant: str) -> str:
    """Return the address below which a tenant's keys are published: at the server's first name, or on loopback."""
    base = f"http://127.0.0.1:{serving.port}"
    if serving.names and serving.tls_port:
        port = "" if serving.tls_port == 443 else f":{serving.tls_port}"
        base = f"https://{serving.names[0]}{port}"
    return f"{base}/identity/{tenant}"


async def respond(settings: Config, keys: ApiKeys, serving: Serving, path: list[str]) -> Response:
    """Answer recipients that verify a token: no API key is needed, and only public keys are shown."""
    tenant = path[0] if path else ""
    keys.look()
    if tenant not in {key.tenant for key in keys.by_id.values()}:
        raise E2bError(404, "unknown issuer")
    issuer = _find_issuer(serving, tenant)
    match path[1:]:
        case [".well-known", "openid-configuration"]:
            document = {
                "issuer": issuer,
                "jwks_uri": f"{issuer}/jwks.json",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }
            return answer(document, headers=_CACHE)
        case ["jwks.json"]:
            folder = get_tenant_settings(settings, tenant).lib / "keys"
            return answer(await anyio.to_thread.run_sync(read_key_set, folder), headers=_CACHE)
    raise make_unknown_route_error()
