"""A namespace of a Kubernetes cluster, through the official client (`hotdesk[kube]`), imported only here.

Objects are read as the server sent them: the client's models would drop fields that they do not know.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
from kubernetes.aio import client, config

from hotdesk.desk.pod.cluster import PodReport, StaleError, parse_pod
from hotdesk.desk.pod.manifest import AGENT, APP, APP_VALUE, STATE, Document
from hotdesk.errors import BriefError, DeskGone, HostError

_CALL_SECONDS = 15.0
_WATCH_SECONDS = 240
"""Seconds after which a watch is opened again, so that a connection that died silently is noticed."""
_SILENCE_SECONDS = 300.0
_RETRY_S = 0.5
_MAX_LINE = 1 << 22
_GONE = 410


class KubernetesNamespace:
    """The pods of one agent in one namespace."""

    def __init__(self, pods: Any, namespace: str, agent: str, log: Callable[[Exception], None]) -> None:
        self.pods = pods
        self.namespace = namespace
        self.selector = f"{APP}={APP_VALUE},{AGENT}={agent}"
        self.log = log
        self.calls = 0
        """Number of requests so far, without the watch."""

    async def create(self, pod: Document) -> Document:
        status, body = await self.call(self.pods.create_namespaced_pod_without_preload_content, body=pod)
        return self.require(status, body, "create a pod")

    async def claim(self, name: str, version: str, seconds: int) -> Document:
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "test", "path": f"/metadata/labels/{STATE.replace('/', '~1')}", "value": "ready"},
            {"op": "replace", "path": f"/metadata/labels/{STATE.replace('/', '~1')}", "value": "claimed"},
            {"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": seconds},
        ]
        status, body = await self.call(self.pods.patch_namespaced_pod_without_preload_content, name=name, body=patch)
        if status in (409, 422):
            raise StaleError(_read_message(body))
        return self.require(status, body, "claim a pod")

    async def read(self, name: str) -> Document:
        status, body = await self.call(self.pods.read_namespaced_pod_without_preload_content, name=name)
        return self.require(status, body, "read a pod")

    async def delete(self, name: str, uid: str) -> None:
        conditions = {"gracePeriodSeconds": 1, **({"preconditions": {"uid": uid}} if uid else {})}
        status, body = await self.call(
            self.pods.delete_namespaced_pod_without_preload_content, name=name, body=conditions
        )
        if status not in (404, 409):
            self.require(status, body, "delete a pod")

    async def delete_all(self) -> None:
        status, body = await self.call(
            self.pods.delete_collection_namespaced_pod_without_preload_content, label_selector=self.selector
        )
        self.require(status, body, "delete the pods of an earlier agent")

    async def list_nodes(self, selector: str) -> list[Document]:
        """Return the cluster's nodes with these labels, as stored."""
        status, body = await self.request(self.pods.list_node_without_preload_content, label_selector=selector)
        return list(self.require(status, body, "list nodes").get("items") or [])

    @property
    def server(self) -> str:
        """The address of the API server, as a URL."""
        return str(self.pods.api_client.configuration.host)

    async def call(self, method: Callable[..., Awaitable[Any]], **arguments: Any) -> tuple[int, Document]:
        """Make one request about this namespace; return the status and the object of the reply."""
        return await self.request(method, namespace=self.namespace, **arguments)

    async def request(self, method: Callable[..., Awaitable[Any]], **arguments: Any) -> tuple[int, Document]:
        """Make one request; return the status and the object of the reply."""
        self.calls += 1
        try:
            with anyio.fail_after(_CALL_SECONDS):
                reply = await method(**arguments)
                body = json.loads(await reply.read())
        except (OSError, TimeoutError, ValueError, aiohttp.ClientError) as e:
            raise HostError(f"the API server of the cluster cannot be reached: {e or 'it does not respond'}") from e
        return int(reply.status), body if isinstance(body, dict) else {}

    def require(self, status: int, body: Document, what: str) -> Document:
        if status < 300:
            return body
        message = f"the cluster refused to {what} (status {status}): {_read_message(body)}"
        if status == 404:
            raise DeskGone(message)
        raise BriefError(message) if status == 422 else HostError(message)

    # -- what becomes of pods -------------------------------------------------------------------------------------

    async def follow(self, note: Callable[[PodReport], None]) -> None:
        names: set[str] = set()
        while True:
            try:
                version = await self.list_pods(note, names)
                while version:
                    version = await self.watch(version, note, names)
            except HostError as e:
                self.log(e)
            await anyio.sleep(_RETRY_S)

    async def list_pods(self, note: Callable[[PodReport], None], names: set[str]) -> str:
        """Report all pods, and as deleted those that are gone; return the version of the list."""
        status, body = await self.call(
            self.pods.list_namespaced_pod_without_preload_content, label_selector=self.selector
        )
        self.require(status, body, "list pods")
        found = [parse_pod(each) for each in body.get("items") or []]
        for name in names - {each.name for each in found}:
            note(PodReport(name, is_deleted=True))
        names.clear()
        names.update(each.name for each in found)
        for each in found:
            note(each)
        return str(body.get("metadata", {}).get("resourceVersion", ""))

    async def watch(self, version: str, note: Callable[[PodReport], None], names: set[str]) -> str:
        """Report changes after a version; return the last version, or an empty text if all must be listed again."""
        try:
            reply = await self.pods.list_namespaced_pod_without_preload_content(
                namespace=self.namespace, label_selector=self.selector, watch=True, resource_version=version,
                timeout_seconds=_WATCH_SECONDS, allow_watch_bookmarks=True, _request_timeout=_SILENCE_SECONDS,
            )  # fmt: skip
            try:
                async for line in _split_lines(reply.content):
                    event = json.loads(line)
                    if event.get("type") == "ERROR":
                        return ""  # the version is too old
                    version = self.pass_on(event, note, names) or version
            finally:
                reply.close()
        except (OSError, TimeoutError, ValueError, AttributeError, aiohttp.ClientError) as e:
            raise HostError(f"the cluster's reports about pods were interrupted: {e}") from e
        return version

    def pass_on(self, event: Mapping[str, Any], note: Callable[[PodReport], None], names: set[str]) -> str:
        """Report one change; return its version."""
        report = parse_pod(event.get("object") or {}, is_deleted=event.get("type") == "DELETED")
        if event.get("type") != "BOOKMARK":
            (names.discard if report.is_deleted else names.add)(report.name)
            note(report)
        return report.version


async def _split_lines(content: Any) -> AsyncIterator[bytes]:
    waiting = b""
    async for data in content.iter_any():
        *lines, waiting = (waiting + data).split(b"\n")
        if len(waiting) > _MAX_LINE:
            raise ValueError("an object is too large")
        for line in lines:
            if line:
                yield line


def _read_message(body: Mapping[str, Any]) -> str:
    """Return the text of an API server's error."""
    return str(body.get("message", "no reason was given"))[:400]


@asynccontextmanager
async def open_namespace(
    namespace: str, agent: str, log: Callable[[Exception], None], kubeconfig: str = ""
) -> AsyncIterator[KubernetesNamespace]:
    """Connect to the cluster that this process runs in, or to the one in a file for `kubectl`."""
    settings = client.Configuration()
    try:
        if kubeconfig:
            await config.load_kube_config(kubeconfig, client_configuration=settings)
        else:
            config.load_incluster_config(client_configuration=settings)
    except (config.ConfigException, OSError) as e:
        raise HostError(f"the cluster's address and credentials cannot be read: {e}") from e
    async with client.ApiClient(settings) as api:
        yield KubernetesNamespace(client.CoreV1Api(api), namespace, agent, log)
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.lowlevel.checkpoint()  # aiohttp closes its connections in the next turn
