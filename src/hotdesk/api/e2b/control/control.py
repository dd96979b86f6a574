"""E2B's control plane: creates, lists, pauses and ends sandboxes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hotdesk.api.caller import Caller
from hotdesk.api.e2b import identity, metrics, network
from hotdesk.api.e2b.builds import routes as template_routes
from hotdesk.api.e2b.builds.service import TemplateBuilds
from hotdesk.api.e2b.control import images, paging, requests, sharing, views
from hotdesk.api.e2b.control.create import apply_build, choose_timeout, read_order
from hotdesk.api.e2b.control.secrets import E2bSecrets
from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.responses import E2bError, answer, answer_empty, make_refusal, make_unknown_route_error
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.e2b.volumes.content import VolumeContent
from hotdesk.api.e2b.volumes.registry import VolumeRegistry, show
from hotdesk.api.idempotency import IdempotentRequests
from hotdesk.api.keys import ApiKeys
from hotdesk.api.tenants import Tenants
from hotdesk.dataclass import dataclass

Act = Callable[["ControlPlane", Request, Sandbox], Awaitable[Response]]
DEFAULT_TIMEOUT, OLD_TIMEOUT, FORK_TIMEOUT = 300, 15, 15
"""Seconds a sandbox lasts by default: in version 2 of the API, in version 1, and as a fork."""
KEY_SHAPE = re.compile(r"[A-Za-z0-9_-]{1,255}")


def _make_key_reused_error() -> E2bError:
    return E2bError(422, "this Idempotency-Key was used for another request; use a new one")


@dataclass(frozen=True, slots=True)
class ControlPlane:
    keys: ApiKeys
    tenants: Tenants
    sandboxes: Sandboxes
    snapshots: TenantSnapshots
    volumes: VolumeRegistry
    content: VolumeContent
    secrets: E2bSecrets
    builds: TemplateBuilds
    idempotency: IdempotentRequests = field(default_factory=lambda: IdempotentRequests(_make_key_reused_error))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self.respond(Request(scope, receive))
        except Exception as e:  # noqa: BLE001 - the rim: whatever fails is an answer the SDKs can read
            response = make_refusal(e, scope).make_response()
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        path = _split_path(request.scope)
        if path[0] == "volumecontent":
            return await self.content.respond(request, path)
        if request.method == "PUT" and len(path) == 4 and (path[0], path[2]) == ("templates", "files"):
            return await template_routes.receive_upload(self.builds, request, path[3])
        if request.method == "GET" and path[0] == "identity":
            return await identity.respond(self.tenants.settings, self.keys, self.sandboxes.serving, path[1:])
        caller = self.authenticate_caller(request)
        match request.method, path:
            case "GET", ["sandboxes", name]:
                if name == "metrics":
                    return await self.get_many_metrics(caller, request)
                return answer(views.describe_sandbox(self.sandboxes.get(caller.tenant, name), self.domain))
            case "POST", ["sandboxes"] | ["v2", "sandboxes"]:
                return await self.create(caller, request, old=path[0] != "v2")
            case "GET", ["v2", "sandboxes"]:
                return self.ls(caller, request)
            case "GET", ["sandboxes"]:
                return self.list_running(caller, request)
            case "DELETE", ["sandboxes", name]:
                await self.sandboxes.kill(self.sandboxes.get(caller.tenant, name))
                return answer_empty()
            case "DELETE", ["sandboxes", name, "shares", share]:
                await sharing.revoke(self.sandboxes, self.sandboxes.get(caller.tenant, name), share)
                return answer_empty()
            case method, ["sandboxes", name, verb] | ["v2", "sandboxes", name, verb] if act := ACTS.get((method, verb)):
                return await act(self, request, self.sandboxes.get(caller.tenant, name))
            case "GET", ["snapshots"]:
                return await self.list_snapshots(caller, request)
            case method, ["volumes"] | ["volumes", _]:
                return await self.answer_volumes(caller, request, method, path[1:])
            case _, ["secrets"] | ["secrets", _]:
                return await self.secrets.respond(
                    caller, await self.tenants.get_tenant(caller.tenant), request, path[1:]
                )
            case method, ["templates" | "v2" | "v3", *_]:
                tenant = await self.tenants.get_tenant(caller.tenant)
                found = await template_routes.respond(self.builds, tenant, caller, request, path)
                if found is not None:
                    return found
                return await images.respond(self.snapshots, tenant, method, path)
        raise make_unknown_route_error()

    @property
    def domain(self) -> str:
        return self.sandboxes.serving.reached

    def authenticate_caller(self, request: Request) -> Caller:
        caller = self.keys.find(request.headers.get("x-api-key", ""))
        if caller is None:
            raise E2bError(401, "the API key is missing or unknown; create a key with `hotdesk key new --name NAME`")
        if not caller.may("sandboxes"):
            raise E2bError(
                401,
                "this key lacks the power 'sandboxes'; use a key created with `hotdesk key new --name NAME --power "
                "sandboxes`",
            )
        return caller

    async def create(self, caller: Caller, request: Request, *, old: bool) -> Response:
        body = await requests.read(request, requests.New)
        tenant = await self.tenants.get_tenant(caller.tenant)
        await self.secrets.check_placeholders(caller, tenant, body.network)

        async def work() -> Response:
            timeout = choose_timeout(
                body.timeout, OLD_TIMEOUT if old else DEFAULT_TIMEOUT, self.sandboxes.serving.longest
            )
            template = body.template.partition("@")[0]
            build = self.builds.find(tenant, template)
            image = build.image if build is not None else self.snapshots.find_image(tenant, template)
            volumes = self.volumes.resolve(tenant.name, ((each.name, each.path) for each in body.volume_mounts or ()))
            secure = not old or body.secure
            order = await read_order(
                body, image, timeout, self.sandboxes, secure=secure, tenant=tenant.name, volumes=volumes
            )
            if build is not None:
                order = apply_build(order, build)
            elif (snapshot := self.snapshots.find(tenant, template)) is not None:
                order = replace(order, user=snapshot.user, workdir=snapshot.workdir)
            with self.volumes.reserve(order.volumes.values()):
                sandbox = await self.sandboxes.create(tenant, order, caller.described)
            return answer(views.describe_connection(sandbox, self.domain), 201)

        key = request.headers.get("idempotency-key")
        if key is not None and not KEY_SHAPE.fullmatch(key):
            raise E2bError(400, "Idempotency-Key must have 1 to 255 characters: letters, digits, '-' and '_'")
        return await self.idempotency.run_once(caller.tenant, key, body, work)

    def ls(self, caller: Caller, request: Request) -> Response:
        query = request.query_params
        states = paging.parse_states(query.getlist("state"))
        after = paging.parse_moment(query["startedAfter"]) if query.get("startedAfter") else 0.0
        metadata = paging.parse_metadata(query.get("metadata", ""))
        template = query.get("template")
        found = (
            each
            for each in self.sandboxes.of(caller.tenant)
            if each.state in states
            and each.started >= after
            and template in (None, each.template, each.template.partition(":")[0])
            and metadata.items() <= each.metadata.items()
        )
        page, headers = paging.cut(found, _get_place, paging.read_page_request(query))
        return answer([views.summarize(each) for each in page], headers=headers)

    def list_running(self, caller: Caller, request: Request) -> Response:
        metadata = paging.parse_metadata(request.query_params.get("metadata", ""))
        running = [each for each in self.sandboxes.of(caller.tenant) if each.state == "running"]
        found = [each for each in running if metadata.items() <= each.metadata.items()]
        return answer([views.summarize(each) for each in sorted(found, key=_get_place, reverse=True)])

    async def list_snapshots(self, caller: Caller, request: Request) -> Response:
        query = request.query_params
        tenant = await self.tenants.get_tenant(caller.tenant)
        found = list(self.snapshots.of(tenant).values())
        if name := query.get("name"):
            one = self.snapshots.find(tenant, name)
            found = [each for each in found if each == one]
        if sandbox := query.get("sandboxID"):
            found = [each for each in found if each.sandbox == sandbox]
        page, headers = paging.cut(found, lambda each: (each.made, each.id), paging.read_page_request(query))
        return answer([each.view for each in page], headers=headers)

    async def answer_volumes(self, caller: Caller, request: Request, method: str, rest: list[str]) -> Response:
        match method, rest:
            case "GET", []:
                return answer([each.view for each in self.volumes.of(caller.tenant)])
            case "POST", []:
                body = await requests.read(request, requests.NewVolume)
                tenant = await self.tenants.get_tenant(caller.tenant)
                return answer(show(await self.volumes.create(tenant, body.name, body.source, caller.described)), 201)
            case "GET", [volume]:
                return answer(show(self.volumes.get(caller.tenant, volume)))
            case "DELETE", [volume]:
                self.volumes.get(caller.tenant, volume)
                tenant = await self.tenants.get_tenant(caller.tenant)
                await self.volumes.destroy(tenant, volume, caller.described)
                return answer_empty()
        raise make_unknown_route_error()

    async def get_many_metrics(self, caller: Caller, request: Request) -> Response:
        names = [name for value in request.query_params.getlist("sandbox_ids") for name in value.split(",")]
        if len(names) > paging.MAX_PAGE_ITEMS:
            raise E2bError(400, f"sandbox_ids can list at most {paging.MAX_PAGE_ITEMS} ids")
        by_id = {each.id: each for each in self.sandboxes.of(caller.tenant)}
        found = {name: await metrics.get_newest_sample(by_id[name]) for name in names if name in by_id}
        return answer({"sandboxes": {name: each for name, each in found.items() if each is not None}})

    async def connect(self, request: Request, sandbox: Sandbox) -> Response:
        """Connect a program to a sandbox; a paused one is resumed."""
        body = await requests.read(request, requests.Connecting)
        timeout = choose_timeout(body.timeout, DEFAULT_TIMEOUT, self.sandboxes.serving.longest)
        resumed = await self.sandboxes.resume(sandbox, timeout, memory=body.memory is not False)
        if not resumed:
            self.sandboxes.lengthen(sandbox, timeout)
        return answer(views.describe_connection(sandbox, self.domain), 201 if resumed else 200)

    async def resume(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Connecting)
        timeout = choose_timeout(body.timeout, OLD_TIMEOUT, self.sandboxes.serving.longest)
        if not await self.sandboxes.resume(sandbox, timeout, memory=body.memory is not False):
            raise E2bError(409, f"sandbox '{sandbox.id}' is already running")
        if body.auto_pause is not None:
            sandbox.auto_pause = body.auto_pause
        return answer(views.describe_connection(sandbox, self.domain), 201)

    async def pause(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Pausing)
        await self.sandboxes.pause(sandbox, memory=body.memory is not False, healthy=bool(body.require_healthy_guest))
        return answer_empty()

    async def set_timeout(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Timeout)
        if sandbox.state == "paused":
            raise E2bError(404, f"sandbox '{sandbox.id}' is paused; connect to it first, which resumes it")
        await self.sandboxes.set_end(sandbox, body.timeout)
        return answer_empty()

    async def refresh(self, request: Request, sandbox: Sandbox) -> Response:
        """Let a sandbox last for at least the requested seconds from now."""
        self.sandboxes.lengthen(sandbox, (await requests.read(request, requests.Refresh)).duration)
        return answer_empty()

    async def fork(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Forking)
        timeout = choose_timeout(body.timeout, FORK_TIMEOUT, self.sandboxes.serving.longest)
        forks = await self.sandboxes.fork(sandbox, body.count or 1, timeout)
        return answer([{"sandbox": views.describe_connection(each, self.domain)} for each in forks], 201)

    async def snapshot(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Snapshotting)
        return answer((await self.snapshots.take(sandbox, body.name)).view, 201)

    async def get_metrics(self, request: Request, sandbox: Sandbox) -> Response:
        return answer(await metrics.list_samples(sandbox, request.query_params))

    async def get_logs(self, request: Request, sandbox: Sandbox) -> Response:
        """Return a sandbox's log: always empty, because it would hold messages of E2B's own machinery."""
        return answer({"logs": [], "logEntries": []})

    async def share(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.NewShare)
        return answer(sharing.make(sandbox, self.sandboxes.serving, body), 201)

    async def list_shares(self, request: Request, sandbox: Sandbox) -> Response:
        return answer([sharing.describe(each) for each in sharing.list_valid(sandbox)])

    async def change_network(self, request: Request, sandbox: Sandbox) -> Response:
        body = await requests.read(request, requests.Networking)
        await self.secrets.check_placeholders(self.authenticate_caller(request), sandbox.tenant, body.network_settings)
        if sandbox.state == "paused":
            raise E2bError(409, f"sandbox '{sandbox.id}' is paused; connect to it first, which resumes it")
        try:
            await network.change(self.sandboxes.serving, sandbox, body.network_settings, body.allow_internet_access)
        except E2bError:
            self.sandboxes.require(sandbox)  # it was killed meanwhile
            raise
        sandbox.internet = body.allow_internet_access
        return answer_empty()


ACTS: dict[tuple[str, str], Act] = {
    ("POST", "connect"): ControlPlane.connect,
    ("POST", "resume"): ControlPlane.resume,
    ("POST", "pause"): ControlPlane.pause,
    ("POST", "timeout"): ControlPlane.set_timeout,
    ("POST", "refreshes"): ControlPlane.refresh,
    ("POST", "fork"): ControlPlane.fork,
    ("POST", "snapshots"): ControlPlane.snapshot,
    ("GET", "metrics"): ControlPlane.get_metrics,
    ("GET", "logs"): ControlPlane.get_logs,
    ("PUT", "network"): ControlPlane.change_network,
    ("POST", "shares"): ControlPlane.share,
    ("GET", "shares"): ControlPlane.list_shares,
}


def _split_path(scope: Scope) -> list[str]:
    """Return the decoded segments of a request's path; an encoded slash is part of a name."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return [unquote(part) for part in raw.partition(b"?")[0].decode("ascii", "replace").strip("/").split("/")]


def _get_place(sandbox: Sandbox) -> paging.Place:
    return sandbox.started, sandbox.id
