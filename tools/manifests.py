"""Check `deploy/`, and write the Helm chart from it: `python tools/manifests.py [--check]`, or `make manifests`.

The manifests of `deploy/base` are the source. The chart has the same objects, with a value at each place in `VALUES`;
rendered with its defaults it equals the base. Every object, with those of `deploy/pods` and `deploy/backup` and a
desk's pod, is validated by the strict schema of the newest Kubernetes that `kubernetes-validate` has, and every pod
except a node agent's by the pod security standard `restricted`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any, TypeAlias

import yaml  # type: ignore[import-untyped]

from hotdesk.desk.pod.manifest import PodOrder, PodTemplate, build_pod

ROOT = Path(__file__).resolve().parents[1]
BASE, CHART, PODS, BACKUP = (ROOT / "deploy" / name for name in ("base", "chart", "pods", "backup"))
Document: TypeAlias = dict[str, Any]
VALUES: dict[str, dict[str, str]] = {
    "DaemonSet/hotdesk-node": {
        "nodes.image": "spec.template.spec.containers.0.image",
        "nodes.args": "spec.template.spec.containers.0.args",
        "nodes.resources": "spec.template.spec.containers.0.resources",
        "nodes.selector": "spec.template.spec.nodeSelector",
        "nodes.tolerations": "spec.template.spec.tolerations",
        "nodes.graceSeconds": "spec.template.spec.terminationGracePeriodSeconds",
        "nodes.priorityClassName": "spec.template.spec.priorityClassName",
        "nodes.diskFloor": "spec.template.spec.containers.0.env.1.value",
        "nodes.identitySecret": "spec.template.spec.volumes.0.secret.secretName",
        "nodes.state": "spec.template.spec.volumes.1.hostPath.path",
    },
    "StatefulSet/hotdesk-server": {
        "server.image": "spec.template.spec.containers.0.image",
        "server.args": "spec.template.spec.containers.0.args",
        "server.probe": " ".join(
            f"spec.template.spec.containers.0.{kind}Probe.exec.command" for kind in ("startup", "readiness", "liveness")
        ),
        "server.envFrom": "spec.template.spec.containers.0.envFrom",
        "server.graceSeconds": "spec.template.spec.terminationGracePeriodSeconds",
        "server.resources": "spec.template.spec.containers.0.resources",
        "server.identitySecret": "spec.template.spec.volumes.1.secret.secretName",
        "server.storage": "spec.volumeClaimTemplates.0.spec.resources.requests.storage",
    },
    "ConfigMap/hotdesk-server": {"server.config": "data"},
}
"""Values of the chart and their places, by object; several places are separated by spaces."""
ADDITIONS: dict[str, dict[str, str]] = {
    "StatefulSet/hotdesk-server": {"server.env": "spec.template.spec.containers.0.env"},
    "NetworkPolicy/hotdesk-server": {"server.egress": "spec.egress"},
}
"""Values of the chart that are added to a list of the base, empty by default; and where that list is."""
COMMENTS: dict[str, str] = {
    "nodes.graceSeconds": "Seconds until an agent is killed: the time of --drain, and that of burning all desks.",
    "nodes.priorityClassName": "With a lower class a node that lacks disk or memory evicts the agent with its desks.",
    "nodes.diskFloor": """\
Free space below which no desk is opened. The kubelet evicts pods at 10 % and deletes images at 15 % of the node's disk:
write 15 % of it, unless `state` is on a disk of its own.""",
    "server.config": "The files of /state/etc. A change replaces the server's pod.",
    "server.args": "With another port, change it in `probe` too.",
    "server.probe": "The command of the server's probes: whether it answers at this port of loopback.",
    "server.envFrom": "ConfigMaps and Secrets, such as one with ANTHROPIC_API_KEY, OPENAI_API_KEY or OTEL_* variables.",
    "server.resources": """\
The memory of the server and all its jobs, which are killed together above the limit. It is at least
  512 MiB + 24 MiB for each tenant + 128 MiB for each job that runs at once (without a model 52 MiB).
`jobs` in [serve.quota] of `config` bounds those of one tenant: two tenants with 12 jobs need 3.6 GiB.""",
    "server.graceSeconds": "Seconds until the server is killed: it closes streams, stops jobs, burns or leaves desks.",
    "server.env": "Further environment variables, as in a container's `env`.",
    "server.egress": """\
Further rules of the server's NetworkPolicy, which by default admits agents and DNS alone. Jobs with a model, ACME and
OpenTelemetry need them, such as
  - {to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 169.254.0.0/16]}}], ports: [{protocol: TCP, port: 443}]}""",
}
"""Comments of the chart's values."""
CHECKSUM = "{{ .Values.server.config | toJson | sha256sum | quote }}"
"""In the chart alone: an annotation of the server's pod that changes with its settings. Kustomize hashes a name."""
SERVER = "StatefulSet/hotdesk-server"
AGENT = "DaemonSet/hotdesk-node"
"""The agent: it is root on its nodes, so only the standard `privileged` admits it."""
DESK = PodOrder("i0", 1, 1 << 30, 1 << 30, 3600, "10.0.0.1:3720", "token", "certificate")
_NAMESPACE = "hotdesk"
_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
_CHART = """\
# Written by `make manifests` from deploy/base; change that.
apiVersion: v2
name: hotdesk
description: Disposable, sealed computers for AI workers, lent by agents on nodes of their own.
type: application
version: {version}
appVersion: "{version}"
kubeVersion: ">=1.25.0-0"
"""


def main() -> int:
    """Write the chart, or print what is wrong."""
    documents = read_base()
    every = [
        *documents,
        *read_folder(PODS),
        *read_folder(BACKUP),
        build_pod(PodTemplate("hotdesk-pods", "base", "gvisor"), DESK),
    ]
    faults = [*find_schema_faults(every), *find_restricted_faults(every)]
    files = build_chart(documents)
    if "--check" in sys.argv[1:]:
        faults += [f"{CHART / name} is not what deploy/base says; run `make manifests`" for name in find_stale(files)]
    else:
        for name, text in files.items():
            (CHART / name).parent.mkdir(parents=True, exist_ok=True)
            (CHART / name).write_text(text)
    faults += [*compare_with_helm(documents), *find_value_faults()]
    print(*faults, sep="\n", end="\n" if faults else "")
    return bool(faults)


def read_base() -> list[Document]:
    """Return the objects of the base, each with its namespace, in the order of its files."""
    return read_folder(BASE)


def read_folder(folder: Path) -> list[Document]:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found: list[Document] = []
    for name in kustomization["resources"]:
        found += [each for each in yaml.safe_load_all((folder / name).read_text()) if each is not None]
    for each in found:
        if each["kind"] != "Namespace":
            each["metadata"]["namespace"] = kustomization["namespace"]
    return [*found, *_generate_maps(folder, kustomization)]


def _generate_maps(folder: Path, kustomization: Document) -> Iterator[Document]:
    """Make the ConfigMaps that Kustomize generates from files, without the hash in their names."""
    for each in kustomization.get("configMapGenerator", []):
        metadata = {"name": each["name"], "namespace": kustomization["namespace"]}
        data = {name: (folder / name).read_text() for name in each["files"]}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def name_of(document: Document) -> str:
    return f"{document['kind']}/{document['metadata']['name']}"


class ValuesDumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes multi-line texts as blocks."""


ValuesDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


# -- faults ---------------------------------------------------------------------------------------------------------


def find_schema_faults(documents: list[Document]) -> list[str]:
    """List what the newest Kubernetes would not accept, field by field, including misspelt fields."""
    validator: Any = import_module("kubernetes_validate")  # a package of the group `cluster`
    faults = []
    for each in documents:
        try:
            validator.validate(each, validator.latest_version(), strict=True)
        except validator.ValidationError as e:
            faults.append(f"{name_of(each)}: {e.message}")
    return faults


def find_restricted_faults(documents: list[Document]) -> list[str]:
    """List pods, except agents, that the pod security standard `restricted` would not admit, and why."""
    return [
        f"{name_of(each)}: {fault}"
        for each in documents
        if (pod := get_pod(each)) is not None and name_of(each) != AGENT
        for fault in find_pod_faults(pod)
    ]


def get_pod(document: Document) -> Document | None:
    """Return the specification of a pod, or of the pods that an object makes; `None` if it makes none."""
    spec: Document = document.get("spec", {})
    return spec if document["kind"] == "Pod" else spec.get("template", {}).get("spec")


def find_pod_faults(pod: Mapping[str, Any]) -> Iterator[str]:
    """List what `restricted` refuses in a pod (Kubernetes' pod security standards, 1.37)."""
    shared = pod.get("securityContext", {})
    yield from (f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    for volume in pod.get("volumes", []):
        yield from (f"volume {volume['name']} is of kind {kind}" for kind in volume.keys() - {"name"} - _VOLUMES)
    for container in (*pod.get("containers", []), *pod.get("initContainers", [])):
        own = {**shared, **container.get("securityContext", {})}
        name = container["name"]
        if own.get("runAsNonRoot") is not True or own.get("runAsUser") == 0:
            yield f"{name} may run as root"
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            yield f"{name} may gain privileges"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name} has capabilities"
        if own.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name} has no seccomp profile"
        yield from (f"{name} takes a port of its node" for port in container.get("ports", []) if port.get("hostPort"))


# -- the chart ----------------------------------------------------------------------------------------------------


def build_chart(documents: list[Document]) -> dict[str, str]:
    """Return the files of a chart that has these objects."""
    values: dict[str, Any] = {}
    files: dict[str, str] = {}
    for each in documents:
        if each["kind"] == "Namespace":
            continue  # `helm install --namespace` names it
        copied: Document = json.loads(json.dumps(each))
        copied["metadata"]["namespace"] = "{{ .Release.Namespace }}"
        for value, places in VALUES.get(name_of(each), {}).items():
            for place in places.split():
                section, name = value.split(".")
                text = f"{{{{ .Values.{value} | toJson }}}}"
                values.setdefault(section, {})[name] = _replace(copied, place.split("."), text)
        for value, place in ADDITIONS.get(name_of(each), {}).items():
            section, name = value.split(".")
            values.setdefault(section, {})[name] = []
            _add_to_list(copied, place.split("."), value)
        if name_of(each) == SERVER:
            copied["spec"]["template"]["metadata"]["annotations"] = {"checksum/config": CHECKSUM}
        written: str = yaml.safe_dump(copied, sort_keys=False, width=100_000)
        file = f"templates/{each['metadata']['name']}-{each['kind'].lower()}.yaml"
        files[file] = written.replace("'{{", "{{").replace("}}'", "}}")
    version = _read_version()
    head = "# Written by `make manifests` from deploy/base, whose objects these are the defaults of.\n"
    files["Chart.yaml"] = _CHART.format(version=version)
    files["values.yaml"] = head + "".join(_write_section(*each) for each in values.items())
    return files


def _write_section(section: str, values: Mapping[str, Any]) -> str:
    """Write some of the chart's values, each below its comment."""
    text = f"{section}:\n"
    for name, value in values.items():
        comment = "".join(f"# {line}\n" for line in COMMENTS.get(f"{section}.{name}", "").splitlines())
        text += indent(comment + yaml.dump({name: value}, Dumper=ValuesDumper, sort_keys=False, width=110), "  ")
    return text


def _add_to_list(document: Any, place: list[str], value: str) -> None:
    """Have a list be followed by the list that is a value of the chart."""
    found = _replace(document, place, "")
    _replace(document, place, f"{{{{ concat (fromJsonArray `{json.dumps(found)}`) .Values.{value} | toJson }}}}")


def _replace(document: Any, place: list[str], text: str) -> Any:
    """Put a text at a place; return the previous value."""
    at = document
    for step in place[:-1]:
        at = at[int(step)] if isinstance(at, list) else at[step]
    found = at[place[-1]]
    at[place[-1]] = text
    return found


def find_stale(files: Mapping[str, str]) -> list[str]:
    """List the chart's files that differ from `files`, and those that are not in it."""
    there = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    changed = {name for name, text in files.items() if name not in there or (CHART / name).read_text() != text}
    return sorted(changed | (there - set(files)))


def compare_with_helm(documents: list[Document]) -> list[str]:
    """List differences between the base and the chart as Helm renders it, and the findings of Helm's linter."""
    linted = _run_helm("lint", "--strict", str(CHART))
    rendered = _render()
    if linted.returncode or rendered.returncode:
        return [linted.stdout + linted.stderr + rendered.stderr]
    found = {name_of(each): each for each in yaml.safe_load_all(rendered.stdout) if each is not None}
    wanted = {name_of(each): each for each in documents if each["kind"] != "Namespace"}
    annotations = found[SERVER]["spec"]["template"]["metadata"].pop("annotations")
    if annotations.keys() != {"checksum/config"}:
        return [f"Helm renders other annotations of the server's pod: {annotations}"]
    other = [name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)]
    return [f"Helm renders {name} otherwise than deploy/base has it" for name in other]


def find_value_faults() -> list[str]:
    """List values of the chart that do not change what they are for: additions to lists, and the checksum."""
    changed = {
        "env": [{"name": "A", "value": "b"}],
        "egress": [{"ports": [{"port": 443}]}],
        "config": {"config.toml": "x"},
    }
    rendered = _render("--set-json", f"server={json.dumps(changed)}")
    if rendered.returncode:
        return [rendered.stderr]
    before = {name_of(each): each for each in yaml.safe_load_all(_render().stdout) if each is not None}
    after = {name_of(each): each for each in yaml.safe_load_all(rendered.stdout) if each is not None}
    faults = [
        f"{value} is not added to {name}"
        for name, additions in ADDITIONS.items()
        for value, place in additions.items()
        if _get(after[name], place) != _get(before[name], place) + changed[value.partition(".")[2]]
    ]
    place = "spec.template.metadata.annotations"
    if _get(after[SERVER], place) == _get(before[SERVER], place):
        faults.append("another server.config makes no other pod")
    return faults


def _get(document: Any, place: str) -> Any:
    for step in place.split("."):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _render(*options: str) -> subprocess.CompletedProcess[str]:
    return _run_helm("template", "hotdesk", str(CHART), "--namespace", _NAMESPACE, *options)


def _run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    helm = str(Path(sys.executable).with_name("helm"))
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)


def _read_version() -> str:
    text = (ROOT / "src/hotdesk/__init__.py").read_text()
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


if __name__ == "__main__":
    sys.exit(main())
