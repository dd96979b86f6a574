"""Run the preflight of desks as pods on the lab's nodes: python -m tools.cluster.preflight KUBECONFIG. Prints JSON.

It runs in the network of the control plane, where the API server is.
"""

from __future__ import annotations

import json
import sys

import anyio
from kubernetes.aio import client, config
from tools.cluster.world import ADDRESS, DOOR_PORT, OTHER_PORT

from hotdesk.desk.pod.preflight import Addresses
from hotdesk.desk.pod.probe_pods import ProbedPool, run_preflight

NAMESPACE = "desks"
LABELS = {"app": "hotdesk-desk"}
NODES = {"node1": "10.123.0.11", "node2": "10.123.0.12"}
PUBLIC = "203.0.113.7"


async def main() -> None:
    addresses = Addresses(
        (ADDRESS, DOOR_PORT), OTHER_PORT, (ADDRESS, 6443), NODES, dns=ADDRESS, public=PUBLIC, metadata="169.254.169.254"
    )
    pool = ProbedPool(
        NAMESPACE, "localhost/hotdesk:dev", tuple(NODES), addresses, LABELS, {"app": "hotdesk-preflight"},
        tolerations=[{"key": "hotdesk", "operator": "Exists"}], pull="Never",
    )  # fmt: skip
    await config.load_kube_config(sys.argv[1])  # type: ignore[no-untyped-call, unused-ignore]
    async with client.ApiClient() as api:
        report = await run_preflight(client.CoreV1Api(api), pool)
    print(json.dumps({"faults": report.faults, "table": report.format()}))


if __name__ == "__main__":
    anyio.run(main)
