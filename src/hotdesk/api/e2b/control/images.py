"""Snapshots and images as templates, and what of E2B's is not offered here: volumes, secrets."""

from __future__ import annotations

from starlette.responses import Response

from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.responses import E2bError, answer, done
from hotdesk.api.tenants import Tenant
from hotdesk.desk.image import image
from hotdesk.errors import ImageError

NOT_OFFERED = {
    "volumes": "volumes are not offered here: keep files in a snapshot, or download them",
    "secrets": "secrets are not offered here: whoever runs this server grants them by its vault, or give variables",
}


async def respond(snapshots: TenantSnapshots, tenant: Tenant, method: str, path: list[str]) -> Response:
    """Answer what is about templates."""
    match method, path:
        case "DELETE", ["templates", name] if name != "tags":
            await snapshots.delete(tenant, name)
            return done()
        case "GET", ["templates", "aliases", name]:
            return answer({"templateID": require_template(snapshots, tenant, name), "public": False})
    word = next((part for part in path[:2] if part in NOT_OFFERED), "")
    if path[0] == "volumecontent":
        word = "volumes"
    if not word:
        raise E2bError(404, "there is no such thing here")
    raise E2bError(501, NOT_OFFERED[word])


def require_template(snapshots: TenantSnapshots, tenant: Tenant, name: str) -> str:
    """Give a template's name, once it is sure that there is one."""
    try:
        image.find(tenant.settings.images, snapshots.image(tenant, name))
    except ImageError:
        raise E2bError(404, "there is no such template") from None
    return name
