"""Build container images as OCI layouts: `make oci`: `out/oci/hotdesk.tar` for server and agents, `desk.tar` for pods.

Two layers: a small Debian with the packages that `hotdesk setup` asks for, made by mmdebstrap and cached; and hotdesk
with the libraries it needs. pip installs them from this machine's own index, and runs in that Debian's Python, whatever
this machine's is. Desks' images are not included: they are on a volume of the node. Desks that are pods start from
`desk.tar`: hotdesk's image `base`, in one layer.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hotdesk.config import load
from hotdesk.desk.image import requirements

ROOT = Path(__file__).parents[1]
NAME = "localhost/hotdesk:dev"
DESK_NAME, DESK_IMAGE = "localhost/hotdesk-desk:dev", "base"
RELEASE, PYTHON, ABI = "bookworm", "python3.11", "cpython-311"
EXTRAS = "serve,kube,models,telemetry"
IMPORTS = "hotdesk.api.server, kubernetes, anthropic, openai, genai_prices, opentelemetry.sdk.trace"
"""What the image's Python must be able to import."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
SITE = "opt/hotdesk/site"
COMMAND = f"""#!/usr/bin/python3 -I
import sys
sys.path.insert(0, "/{SITE}")
from hotdesk.cli import main
main()
"""
QUESTION = """#!/usr/bin/python3 -I
import sys
import urllib.request
port = sys.argv[1] if sys.argv[1:] else "3700"
urllib.request.urlopen(f"http://127.0.0.1:{port}/PATH", timeout=9)
"""
"""A question to the server, which listens on loopback without TLS."""
SEALED = (
    (Path("usr/local/bin/hotdesk"), COMMAND),
    (Path("usr/local/bin/hotdesk-health"), QUESTION.replace("PATH", "health")),  # whether it answers: the pod's probes
    (Path("usr/local/bin/hotdesk-ready"), QUESTION.replace("PATH", "ready")),  # whether desks can be opened
)


def make_base(cache: Path) -> Path:
    """Return the lower layer, as a tar file."""
    packages = ("python3", "ca-certificates", *requirements.PACKAGES)
    key = hashlib.sha256(" ".join((RELEASE, *packages)).encode()).hexdigest()[:16]
    found = cache / f"base-{key}.tar"
    if not found.exists():
        cache.mkdir(parents=True, exist_ok=True)
        partial = found.with_suffix(".part.tar")
        argv = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", RELEASE, str(partial)]
        subprocess.run(argv, check=True)
        partial.rename(found)
    return found


def make_upper(base: Path, target: Path) -> None:
    """Write the upper layer: hotdesk, its libraries, three commands."""
    wheels = sorted((ROOT / "dist").glob("hotdesk-*.whl"))
    if len(wheels) != 1:
        sys.exit("there is no wheel in dist/: run `make dist` first")
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        tree = Path(temporary)
        subprocess.run(["tar", "-xf", str(base), "-C", temporary, "--exclude=./dev"], check=True)
        python = find_python(tree)
        install(python, f"{wheels[0]}[{EXTRAS}]", tree)
        shutil.rmtree(tree / SITE / "bin", ignore_errors=True)
        if faults := find_foreign_extensions(tree / SITE):
            sys.exit("\n".join(faults))
        for place, text in SEALED:
            (tree / place).write_text(text)
            (tree / place).chmod(0o755)
        compile_bytecode(python, tree / SITE, "-s", temporary, "-p", "/", PYTHONHOME=str(tree / "usr"))
        run_python(python, tree, "-c", f"import {IMPORTS}", PYTHONPATH=str(tree / SITE))
        paths = [tree / SITE, *(tree / SITE).rglob("*"), *(tree / place for place, _ in SEALED)]
        with tarfile.open(target, "w") as tar:
            for path in sorted(paths):
                tar.add(path, str(path.relative_to(tree)), recursive=False, filter=_normalize)


def find_python(tree: Path) -> list[str]:
    """Return the command of a tree's Python: by its own loader and libraries it runs in this machine's file system."""
    [libraries] = (tree / "usr/lib").glob("*-linux-gnu")
    [loader] = libraries.glob("ld-linux-*.so.*")
    return [str(loader), "--library-path", str(libraries), str(tree / "usr/bin" / PYTHON)]


def run_python(python: Sequence[str], tree: Path, *argv: str, **env: str) -> None:
    settings = {"PYTHONHOME": str(tree / "usr"), "PYTHONDONTWRITEBYTECODE": "1", **env}
    subprocess.run([*python, *argv], env={**os.environ, **settings}, cwd=tree, check=True)


def install(python: Sequence[str], requirement: str, tree: Path) -> None:
    """Install a package and what it needs for the Python of a tree, with this machine's pip and its settings.

    `pip --python-version` would not do: it evaluates the conditions of dependencies for the Python that runs it.
    """
    spec = find_spec("pip")
    assert spec is not None
    assert spec.origin is not None
    with tempfile.TemporaryDirectory() as path:
        Path(path, "pip").symlink_to(Path(spec.origin).parent)
        options = ["--quiet", "--no-compile", "--only-binary=:all:", "--root-user-action=ignore"]
        run_python(
            python, tree, "-m", "pip", "install", *options, "--target", str(tree / SITE), requirement, PYTHONPATH=path
        )


def find_foreign_extensions(site: Path) -> list[str]:
    """List extension modules that the image's Python cannot load."""
    machine = platform.machine()
    fitting = (f".{ABI}-{machine}-linux-gnu.so", ".abi3.so")
    return [
        f"{path} is not built for {ABI} on {machine}"
        for path in sorted(site.rglob("*.so"))
        if not path.name.endswith(fitting) and not path.parent.name.endswith(".libs")  # libraries that extensions bring
    ]


def compile_bytecode(python: Sequence[str], folder: Path, *options: str, **env: str) -> None:
    """Compile all modules below a folder, so that their bytecode is valid whatever the time of their files."""
    argv = [*python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *options, str(folder)]
    subprocess.run(argv, env={**os.environ, **env}, check=True)


def _normalize(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove what differs between builds."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


AGENT = {
    "Entrypoint": ["/usr/local/bin/hotdesk"],
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE=1"],
}


def write_layout(layers: list[Path], target: Path, name: str, settings: dict[str, list[str]]) -> str:
    """Write an OCI layout of these layers as a tar file; return the digest of its manifest."""
    described = [_describe(each, "application/vnd.oci.image.layer.v1.tar") for each in layers]
    config = json.dumps({
        "architecture": MACHINES[platform.machine()], "os": "linux", "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in described]},
    }).encode()  # fmt: skip
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _describe(config, "application/vnd.oci.image.config.v1+json"), "layers": described,
    }).encode()  # fmt: skip
    entry = _describe(manifest, "application/vnd.oci.image.manifest.v1+json")
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": names}]}
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in (config, manifest):
            _add(tar, _blob(blob), blob)
        for layer, description in zip(layers, described, strict=True):
            tar.add(layer, f"blobs/sha256/{str(description['digest']).removeprefix('sha256:')}", filter=_normalize)
    return str(entry["digest"])


def _describe(content: bytes | Path, kind: str) -> dict[str, object]:
    """Return the descriptor of a blob."""
    if isinstance(content, bytes):
        return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    with content.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": content.stat().st_size}


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def make_desk(target: Path) -> str:
    """Write the image of desks that are pods; return the digest of its manifest."""
    store = load().images
    record = json.loads((store / f"images/{DESK_IMAGE}.json").read_text())
    if len(record["layers"]) != 1:
        sys.exit(f"image {DESK_IMAGE} has {len(record['layers'])} layers; only one can be packed")
    layer, source = target.with_suffix(".layer"), store / "layers" / record["layers"][0]
    with tarfile.open(layer, "w") as tar:
        for where, folders, files in os.walk(source):
            folders.sort()
            for name in sorted([*files, *folders]):
                path = Path(where, name)
                tar.add(path, str(path.relative_to(source)), recursive=False)
    digest = write_layout([layer], target, DESK_NAME, {"Cmd": ["/bin/sh"]})
    layer.unlink()
    return digest


def main() -> None:
    out = ROOT / "out/oci"
    base = make_base(out / "cache")
    with tempfile.TemporaryDirectory(dir=out) as temporary:
        upper = Path(temporary) / "upper.tar"
        make_upper(base, upper)
        partial = Path(temporary) / "hotdesk.tar"
        digest = write_layout([base, upper], partial, NAME, AGENT)
        partial.rename(out / "hotdesk.tar")
        desk = make_desk(Path(temporary) / "desk.tar")
        (Path(temporary) / "desk.tar").rename(out / "desk.tar")
    print(f"{out / 'hotdesk.tar'}: {NAME} {digest}")
    print(f"{out / 'desk.tar'}: {DESK_NAME} {desk}")


if __name__ == "__main__":
    main()
