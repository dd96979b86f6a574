"""Snapshots and images as templates, by name."""

from __future__ import annotations

from starlette.responses import Response

from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.responses import E2bError, answer, answer_empty, make_unknown_route_error
from hotdesk.api.tenants import Tenant
from hotdesk.desk.image import image
from hotdesk.errors import ImageError


async def respond(snapshots: TenantSnapshots, tenant: Tenant, method: str, path: list[str]) -> Response:
    match method, path:
        case "DELETE", ["templates", name] if name != "tags":
            await snapshots.delete(tenant, name)
            return answer_empty()
        case "GET", ["templates", "aliases", name]:
            return answer({"templateID": require_template(snapshots, tenant, name), "public": False})
    raise make_unknown_route_error()


def require_template(snapshots: TenantSnapshots, tenant: Tenant, name: str) -> str:
    try:
        image.find(tenant.settings.images, snapshots.find_image(tenant, name))
    except ImageError:
        raise E2bError(404, "template not found") from None
    return name
