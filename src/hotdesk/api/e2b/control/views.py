"""Response bodies that describe sandboxes to E2B programs."""

from __future__ import annotations

from datetime import UTC, datetime

from hotdesk.api.e2b.responses import ENVD_VERSION
from hotdesk.api.e2b.sandboxes import Sandbox
from hotdesk.config import MIB

CLIENT = "hotdesk"
"""The value of an obsolete field that every SDK requires."""


def describe_connection(sandbox: Sandbox, domain: str) -> dict[str, object]:
    view: dict[str, object] = {
        "templateID": sandbox.template,
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "envdVersion": ENVD_VERSION,
        "alias": sandbox.template.partition(":")[0],
        "trafficAccessToken": sandbox.shown_traffic_token,
        "domain": domain,
    }
    return view | ({"envdAccessToken": sandbox.token} if sandbox.token else {})


def summarize(sandbox: Sandbox) -> dict[str, object]:
    view: dict[str, object] = {
        "templateID": sandbox.template,
        "sandboxID": sandbox.id,
        "clientID": CLIENT,
        "alias": sandbox.template.partition(":")[0],
        "startedAt": as_time(sandbox.started),
        "endAt": as_time(sandbox.ends),
        "envdVersion": ENVD_VERSION,
        "cpuCount": max(1, int(sandbox.spec.cpus)),
        "memoryMB": sandbox.spec.memory // MIB,
        "diskSizeMB": sandbox.spec.disk // MIB,
        "state": sandbox.state,
        "metadata": dict(sandbox.metadata),
    }
    return view | ({"pauseMode": sandbox.pause_mode} if sandbox.state == "paused" else {})


def describe_sandbox(sandbox: Sandbox, domain: str) -> dict[str, object]:
    view = summarize(sandbox) | {
        "domain": domain,
        "wall": sandbox.spec.wall,
        "allowInternetAccess": sandbox.internet,
        "lifecycle": {
            "autoResume": sandbox.auto_resume,
            "onTimeout": "pause" if sandbox.auto_pause else "kill",
        },
    }
    if sandbox.mounts:
        view["volumeMounts"] = [{"name": name, "path": path} for path, name in sandbox.mounts.items()]
    if sandbox.network is not None:
        view["network"] = dict(sandbox.network)
    return view | ({"envdAccessToken": sandbox.token} if sandbox.token else {})


def as_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
