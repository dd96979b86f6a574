"""Time plain pods on the lab's nodes: python -m tools.cluster.plain_pods KUBECONFIG COUNT. Prints seconds, as JSON.

It runs in the network of the control plane, where the API server is.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import anyio
from kubernetes.aio import client, config, watch

NAMESPACE = "default"
SIZE = {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "16Gi"}


def build_pod(name: str) -> dict[str, Any]:
    """Return a pod like a desk's, which only sleeps."""
    container = {
        "name": "plain", "image": "localhost/hotdesk-desk:dev", "imagePullPolicy": "Never", "command": ["sleep", "600"],
        "resources": {"requests": SIZE, "limits": SIZE},
    }  # fmt: skip
    spec = {
        "runtimeClassName": "crun", "nodeSelector": {"hotdesk": "pods"}, "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": False, "containers": [container],
    }  # fmt: skip
    return {"metadata": {"name": name, "labels": {"app": "plain"}}, "spec": spec}


async def time_pod(core: Any, name: str) -> float:
    """Return the seconds from the creation of a pod to its readiness; delete it."""
    begun = time.monotonic()
    await core.create_namespaced_pod(NAMESPACE, build_pod(name))
    try:
        async with watch.Watch() as events:
            async for event in events.stream(
                core.list_namespaced_pod, NAMESPACE, field_selector=f"metadata.name={name}"
            ):
                conditions = event["object"].status.conditions or []
                if any(each.type == "Ready" and each.status == "True" for each in conditions):
                    return time.monotonic() - begun
        raise RuntimeError("the watch ended")
    finally:
        await core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)


async def main() -> None:
    await config.load_kube_config(sys.argv[1])  # type: ignore[no-untyped-call, unused-ignore]
    found = []
    async with client.ApiClient() as api:
        for number in range(int(sys.argv[2])):
            with anyio.fail_after(60):
                found.append(await time_pod(client.CoreV1Api(api), f"plain-{number}"))
    print(json.dumps(found))


if __name__ == "__main__":
    anyio.run(main)
