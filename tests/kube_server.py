"""A real API server and its etcd on loopback, and a stand-in for a kubelet that runs pods as `pod_cluster` does.

`HOTDESK_KUBE_BINARIES` is a folder with kube-apiserver, which `tools/cluster/build.sh` builds, and etcd.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import yaml  # type: ignore[import-untyped]
from anyio.from_thread import start_blocking_portal

from hotdesk.errors import HotdeskError
from tests.pod_cluster import NamespacePods

BINARIES = os.environ.get("HOTDESK_KUBE_BINARIES", "")
NAMESPACE = "hotdesk-pods"
AGENT_USER = f"system:serviceaccount:{NAMESPACE}:hotdesk-pods"
DEPLOY = Path(__file__).parents[1] / "deploy/pods"


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


class ApiServer:
    """A running API server, and how to reach it as its administrator or as the agent."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"https://127.0.0.1:{port}"

    def write_kubeconfig(self, token: str) -> str:
        path = self.folder / f"{token}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "certs/apiserver.crt")}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": token}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        return str(path)

    def is_ready(self) -> bool:
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": "Bearer admin"})  # noqa: S310
        context = ssl._create_unverified_context()  # noqa: S323 - only to see whether it has started
        try:
            with urllib.request.urlopen(request, context=context, timeout=2) as reply:  # noqa: S310
                return bool(reply.read() == b"ok")
        except OSError:
            return False


@contextmanager
def run_api_server(folder: Path) -> Iterator[ApiServer]:
    """Start both processes, unprivileged if this one is; end them with the block."""
    (folder / "tokens").write_text(f"admin,admin,1,system:masters\nagent,{AGENT_USER},2,system:serviceaccounts\n")
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    client, peer, port = find_free_port(), find_free_port(), find_free_port()
    store = f"http://127.0.0.1:{client}"
    etcd = [
        f"{BINARIES}/etcd" if Path(BINARIES, "etcd").exists() else str(shutil.which("etcd")),
        "--data-dir", f"{folder}/etcd", "--listen-client-urls", store, "--advertise-client-urls", store,
        "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync",
    ]  # fmt: skip
    api = [
        f"{BINARIES}/kube-apiserver", f"--etcd-servers={store}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", f"--secure-port={port}", "--insecure-port=0", f"--cert-dir={folder}/certs",
        f"--token-auth-file={folder}/tokens", f"--service-account-key-file={folder}/sa.key",
        f"--service-account-signing-key-file={folder}/sa.key", "--service-account-issuer=https://x",
        "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
    ]  # fmt: skip
    processes = []
    try:
        for argv in (etcd, api):
            with open(folder / f"{Path(argv[0]).name}.log", "w") as log:
                processes.append(
                    subprocess.Popen(argv, stdout=log, stderr=log, env={"ETCD_UNSUPPORTED_ARCH": "arm64", **os.environ})
                )
        server, end = ApiServer(folder, port), time.monotonic() + 120
        while not server.is_ready():
            if time.monotonic() > end or processes[1].poll() is not None:
                raise RuntimeError((folder / "kube-apiserver.log").read_text()[-2000:])
            time.sleep(0.1)
        yield server
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def apply_deployment(kubeconfig: str) -> None:
    """Create the namespace of `deploy/pods`, and what the agent may do in it."""
    from kubernetes.aio import client, config

    settings = client.Configuration()
    await config.load_kube_config(kubeconfig, client_configuration=settings)
    async with client.ApiClient(settings) as api:
        documents = [*yaml.safe_load_all((DEPLOY / "agent.yaml").read_text())]
        found = {each["kind"]: each for each in documents}
        rights = client.RbacAuthorizationV1Api(api)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.CoreV1Api(api).create_namespace(body=namespace)
        await rights.create_namespaced_role(NAMESPACE, found["Role"])
        await rights.create_namespaced_role_binding(NAMESPACE, found["RoleBinding"])


class StandInKubelet:
    """Binds every pod to a node, runs it as a process in namespaces, and reports its state."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        self.pods = NamespacePods()
        self.started: set[str] = set()

    async def run(self) -> None:
        from kubernetes.aio import client, config

        settings = client.Configuration()
        await config.load_kube_config(self.kubeconfig, client_configuration=settings)
        async with client.ApiClient(settings) as api:
            core = client.CoreV1Api(api)
            try:
                while True:
                    with anyio.CancelScope():
                        await self.turn(core)
                    await anyio.sleep(0.1)
            finally:
                for name in list(self.pods.stored):
                    self.pods.kill(name)
                with anyio.CancelScope(shield=True):
                    await api.close()
                    await anyio.sleep(0.5)  # aiohttp closes its connections in a later turn

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Run in a thread for the length of a block."""
        with start_blocking_portal() as portal:
            future = portal.start_task_soon(self.run)
            try:
                yield
            finally:
                future.cancel()
                wait([future])

    async def turn(self, core: Any) -> None:
        reply = await core.list_namespaced_pod(NAMESPACE)
        for each in reply.items:
            name = each.metadata.name
            if each.metadata.deletion_timestamp is not None:
                if name in self.pods.stored:
                    self.pods.kill(name)
                await core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
            elif name not in self.started:
                self.started.add(name)
                await self.start(core, each)

    async def start(self, core: Any, pod: Any) -> None:
        name = pod.metadata.name
        target = {"apiVersion": "v1", "kind": "Node", "name": "node1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        reply = await core.create_namespaced_pod_binding_without_preload_content(name, NAMESPACE, binding)
        if reply.status >= 300:
            raise HotdeskError(await reply.text())
        container = pod.spec.containers[0]
        env = [{"name": each.name, "value": each.value or ""} for each in container.env]
        document = {
            "metadata": {"name": name},
            "spec": {"containers": [{"command": list(container.command), "env": env}]},
        }
        self.pods.stored[name] = document
        await anyio.to_thread.run_sync(self.pods.launch, name, document)
        address = document["status"]["podIP"]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        reply = await core.patch_namespaced_pod_status_without_preload_content(
            name, NAMESPACE, {"status": status}, _content_type="application/merge-patch+json"
        )
        if reply.status >= 300:
            raise HotdeskError(await reply.text())
