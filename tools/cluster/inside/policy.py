"""Enforces NetworkPolicies on a node of the lab with nftables, while /lab/enforce exists.

An address of the node's range that belongs to no known pod may reach nothing, so that a new pod is never unprotected.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from api import read_list  # type: ignore[import-not-found]

NODE = sys.argv[1]
RANGE = f"10.200.{int(NODE[4:]) - 1}.0/24"
SWITCH = Path("/lab/enforce")


def matches(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Return whether labels are selected; the lab's policies use `matchLabels` only."""
    return selector is not None and (selector.get("matchLabels") or {}).items() <= labels.items()


def list_peers(
    peer: dict[str, Any], policy: dict[str, Any], pods: list[dict[str, Any]], spaces: dict[str, Any]
) -> list[str]:
    """Return the addresses that a peer of a rule stands for."""
    if "ipBlock" in peer:
        return [peer["ipBlock"]["cidr"]]
    here = policy["metadata"]["namespace"]
    return [
        pod["status"]["podIP"]
        for pod in pods
        if ("podSelector" not in peer or matches(peer["podSelector"], pod["metadata"].get("labels", {})))
        and (
            matches(peer["namespaceSelector"], spaces[pod["metadata"]["namespace"]])
            if "namespaceSelector" in peer
            else pod["metadata"]["namespace"] == here
        )
    ]


def render_rules(
    pod: dict[str, Any], way: str, policies: list[Any], pods: list[Any], spaces: dict[str, Any]
) -> list[str]:
    """Return what leads a pod's packets through; none if no policy selects it for this direction."""
    kind, side, field = ("Egress", "to", "daddr") if way == "egress" else ("Ingress", "from", "saddr")
    labels, space = pod["metadata"].get("labels", {}), pod["metadata"]["namespace"]
    chosen = [
        each
        for each in policies
        if each["metadata"]["namespace"] == space
        and matches(each["spec"]["podSelector"], labels)
        and kind in each["spec"].get("policyTypes", ["Ingress"])
    ]
    lines = []
    for policy in chosen:
        for rule in policy["spec"].get(way) or []:
            ports = [
                f"{each.get('protocol', 'TCP').lower()} dport {each['port']} " for each in rule.get("ports", [])
            ] or [""]
            peers = [one for each in rule.get(side, []) for one in list_peers(each, policy, pods, spaces)]
            hosts = [f"ip {field} {each} " for each in peers] if rule.get(side) else [""]
            lines += [f"{host}{port}return" for host in hosts for port in ports]
    return [*lines, "drop"] if chosen else []


def render() -> str:
    """Return the whole table."""
    pods = [
        each
        for each in read_list("/api/v1/pods")
        if each.get("status", {}).get("podIP") and not each["spec"].get("hostNetwork")
    ]
    pods = [each for each in pods if each["status"]["phase"] not in ("Succeeded", "Failed")]
    spaces = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in read_list("/api/v1/namespaces")}
    policies = read_list("/apis/networking.k8s.io/v1/networkpolicies")
    own = [each for each in pods if each["spec"].get("nodeName") == NODE]
    chains, jumps = [], []
    for number, pod in enumerate(own):
        ip = pod["status"]["podIP"]
        for way, field in (("egress", "saddr"), ("ingress", "daddr")):
            if lines := render_rules(pod, way, policies, pods, spaces):
                chains.append(f"chain {way}{number} {{\n" + "\n".join(lines) + "\n}")
                jumps.append(f"ip {field} {ip} jump {way}{number}")
    known = ", ".join(each["status"]["podIP"] for each in own)
    if known:
        jumps.append(f"ip saddr {RANGE} ip saddr != {{ {known} }} drop")
    body = "\n".join(["ct state established,related accept", *jumps])
    hooks = [f"chain {hook} {{ type filter hook {hook} priority 0;\n{body}\n}}" for hook in ("forward", "input")]
    return "table ip pods {}\ndelete table ip pods\ntable ip pods {\n" + "\n".join(chains + hooks) + "\n}\n"


def main() -> None:
    last = ""
    while True:
        try:
            table = render() if SWITCH.exists() else "table ip pods {}\ndelete table ip pods\n"
            if table != last:
                subprocess.run(["nft", "-f", "-"], input=table.encode(), check=True)
                last = table
        except (subprocess.CalledProcessError, KeyError, OSError, ValueError) as e:
            print(e, file=sys.stderr, flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main()
