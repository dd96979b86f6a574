"""Tests of real images: built from the machine's package sources, imported from archives, removed without a trace."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotdesk import config
from hotdesk.desk.image import recipe, store
from hotdesk.desk.image.build import build
from hotdesk.desk.image.image import Image, find
from hotdesk.desk.image.importer import import_image
from hotdesk.errors import BriefError, ImageError

pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]

MACHINE = {"aarch64": "arm64", "x86_64": "amd64"}[os.uname().machine]
FreshName = Callable[[], str]


@pytest.fixture(scope="module")
def images() -> Path:
    """Return the machine's own store, so that the base is built once."""
    return config.load().images


@pytest.fixture(scope="module")
def base(images: Path) -> Image:
    return build(images, recipe.load("base"), print)


@pytest.fixture
def fresh(images: Path) -> Iterator[FreshName]:
    names: list[str] = []

    def name() -> str:
        names.append(f"test-{secrets.token_hex(6)}")
        return names[-1]

    yield name
    for each in names:
        if (images / "images" / f"{each}.json").exists():
            store.rm(images, each)


@pytest.fixture(scope="module")
def base_tar(base: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "rootfs.tar"
    subprocess.run(["tar", "-C", base.layers[0], "-cf", path, "."], check=True)
    return path


def run_in(image: Image, *argv: str) -> str:
    lowers = ":".join(str(layer) for layer in image.layers)
    script = """
set -e
mount -t tmpfs tmpfs /mnt; mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
touch /mnt/root/dev/null; mount --bind /dev/null /mnt/root/dev/null
shift; exec chroot --userspec=1000:1000 /mnt/root "$@"
"""
    spaces = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--propagation", "private"]
    clean = {"PATH": "/usr/bin:/bin:/usr/sbin", "LANG": "C.UTF-8", "HOME": "/home/user"}
    done = subprocess.run(
        [*spaces, "sh", "-c", script, "sh", lowers, *argv], capture_output=True, env=clean, check=True
    )
    return done.stdout.decode()


def leftovers(images: Path) -> tuple[list[str], bool]:
    """Return what stays in the store's working folder, where others may import meanwhile, and whether it is mounted."""
    names, end = set(os.listdir(images / "tmp")), time.monotonic() + 30
    while names and time.monotonic() < end:
        time.sleep(0.1)
        names.intersection_update(os.listdir(images / "tmp"))
    return sorted(names), str(images) in Path("/proc/self/mountinfo").read_text()


def test_the_base_has_a_computers_programs(base: Image, images: Path) -> None:
    program = "import os, pwd, ssl, sqlite3; print(pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser('~'))"
    assert run_in(base, base.python, "-c", program) == "user /home/user\n"
    assert run_in(
        base, "sh", "-c", "echo héllo | rg -c é && git --version && jq --version && pip --version"
    ).startswith("1")
    layer = base.layers[0]
    assert (layer / "etc/machine-id").read_bytes() == b""
    assert not list(layer.glob("usr/lib/python3*/EXTERNALLY-MANAGED"))
    assert os.listdir(layer / "var/cache/apt/archives") in ([], ["partial"], ["lock", "partial"], ["partial", "lock"])
    assert leftovers(images) == ([], False)


def test_the_base_has_no_setuid_or_special_files(base: Image) -> None:
    others = ["!", "-type", "f", "!", "-type", "d", "!", "-type", "l"]
    argv = ["find", str(base.layers[0]), "-perm", "/6000", "-o", *others]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b""


def test_a_login_shell_of_the_base_starts_no_other_program(base: Image) -> None:
    started = run_in(base, "sh", "-c", "true & echo $!; exec bash -l -c 'true & echo $!'")
    before, after = map(int, started.split())
    assert after == before + 1
    paths = {shell: run_in(base, shell, "-l", "-c", "echo $PATH") for shell in ("bash", "sh")}
    assert paths == dict.fromkeys(paths, "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\n")


def test_the_base_has_its_bytecode(base: Image) -> None:
    program = "import json.tool, sys; print([m.__name__ for m in sys.modules.values() if getattr(m, '__cached__', None)"
    program += " and not __import__('os').path.exists(m.__cached__)])"
    assert run_in(base, base.python, "-c", program) == "[]\n"


def test_an_existing_image_is_not_built_again(base: Image, images: Path) -> None:
    said: list[str] = []
    assert build(images, recipe.load("base"), said.append) == base
    assert said == []


@pytest.mark.long
def test_a_custom_recipe_is_built(base: Image, images: Path, tmp_path: Path, fresh: FreshName) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'from = "base"\napt = ["figlet"]\npip = ["six"]\n'
        'run = ["echo hi > /etc/hi", "rm -r /usr/share/nano && mkdir /usr/share/nano", "rm /usr/bin/zip"]\n'
    )
    said: list[str] = []
    image = build(images, recipe.load(str(path), fresh()), said.append)
    assert image.layers[1:] == base.layers
    assert "_" in run_in(image, "figlet", "hi")
    assert run_in(image, "python3", "-c", "import six; print(six.__name__)") == "six\n"
    assert run_in(image, "cat", "/etc/hi") == "hi\n"
    assert run_in(image, "ls", "/usr/share/nano") == ""
    assert run_in(image, "sh", "-c", "command -v zip || echo gone") == "gone\n"
    kept = subprocess.run(["find", image.layers[0], "-type", "f", "-path", "*/apt/*"], capture_output=True, check=True)
    assert [line for line in kept.stdout.decode().split() if not line.endswith("extended_states")] == []
    assert any("installing 1 packages" in line for line in said)
    assert leftovers(images) == ([], False)


def test_a_recipe_that_fails_says_why_and_leaves_nothing(base: Image, images: Path, fresh: FreshName) -> None:
    name = fresh()
    wanted = recipe.parse('from = "base"\nrun = ["printf \'no \\\\033[2J way\' >&2; exit 3"]', name)
    with pytest.raises(ImageError, match="could not be built") as caught:
        build(images, wanted, print)
    assert "no \\x1b[2J way" in str(caught.value)
    assert leftovers(images) == ([], False)
    with pytest.raises(ImageError):
        find(images, name)


def test_run_lines_have_no_network(base: Image, images: Path, fresh: FreshName) -> None:
    image = build(images, recipe.parse('from = "base"\nrun = ["grep -c : /proc/net/dev > /n"]', fresh()), print)
    assert run_in(image, "cat", "/n") == "1\n", "the loopback alone"


def test_a_killed_builds_leftovers_are_removed(base: Image, images: Path, fresh: FreshName) -> None:
    name = fresh()
    program = f"""
from pathlib import Path
from hotdesk.desk.image import build, recipe
recipe = recipe.parse('from = "base"\\nrun = ["sleep 1000"]', {name!r})
build.build(Path({str(images)!r}), recipe, lambda line: print(line, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert b"running sleep" in child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    work = os.listdir(images / "tmp")
    assert len(work) == 1
    deadline = time.monotonic() + 10
    while any_process_below(images / "tmp" / work[0]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any_process_below(images / "tmp" / work[0])
    assert str(images) not in Path("/proc/self/mountinfo").read_text()
    build(images, recipe.parse('from = "base"\nrun = ["true"]', fresh()), print)
    assert leftovers(images) == ([], False)
    with pytest.raises(ImageError):
        find(images, name)


def any_process_below(folder: Path) -> bool:
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            if folder.name in path.read_text():
                return True
        except OSError:
            continue
    return False


@pytest.mark.long
def test_a_root_file_system_is_imported(base: Image, base_tar: Path, images: Path, fresh: FreshName) -> None:
    image = import_image(images, base_tar, fresh(), print)
    assert image.digest == hashlib.sha256(base_tar.read_bytes()).hexdigest()
    same = subprocess.run(["diff", "-r", "--no-dereference", base.layers[0], image.layers[0]], check=False)
    assert same.returncode == 0
    assert run_in(image, image.python, "-c", "print(6 * 7)") == "42\n"
    assert leftovers(images) == ([], False)


def blob(folder: Path, data: bytes) -> dict[str, object]:
    (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs/sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def top_layer(tmp_path: Path) -> bytes:
    tree = tmp_path / "top"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/added").write_text("added\n")
    (tree / "etc/.wh.debian_version").touch()
    (tree / "usr/share/nano").mkdir(parents=True)
    (tree / "usr/share/nano/.wh..wh..opq").touch()
    path = tmp_path / "top.tar"
    subprocess.run(["tar", "-C", tree, "-cf", path, "etc", "usr"], check=True)
    return path.read_bytes()


def check_layers(image: Image) -> None:
    assert run_in(image, "cat", "/etc/added") == "added\n"
    assert run_in(image, "sh", "-c", "ls /etc/debian_version 2>/dev/null; ls /usr/share/nano; id -un") == "user\n"


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True], ids=["directory", "compressed tar"])
def test_an_oci_layout_is_imported(
    base_tar: Path, tmp_path: Path, images: Path, fresh: FreshName, packed: bool
) -> None:
    path = tmp_path / "oci"
    layers = [blob(path, base_tar.read_bytes()), blob(path, gzip.compress(top_layer(tmp_path), 1))]
    config_blob = blob(path, json.dumps({"architecture": MACHINE, "os": "linux"}).encode())
    manifest = blob(path, json.dumps({"schemaVersion": 2, "config": config_blob, "layers": layers}).encode())
    inner = blob(path, json.dumps({"manifests": [manifest | {"platform": {"architecture": MACHINE}}]}).encode())
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [inner]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    if packed:
        subprocess.run(["tar", "-C", path, "-czf", tmp_path / "oci.tar.gz", "."], check=True)
        path = tmp_path / "oci.tar.gz"
    image = import_image(images, path, fresh(), print)
    assert image.source.startswith("an OCI layout")
    check_layers(image)


@pytest.mark.long
def test_a_docker_archive_is_imported(base_tar: Path, tmp_path: Path, images: Path, fresh: FreshName) -> None:
    top = top_layer(tmp_path)
    ids = [hashlib.sha256(data).hexdigest() for data in (base_tar.read_bytes(), top)]
    facts = {"architecture": MACHINE, "os": "linux", "rootfs": {"diff_ids": [f"sha256:{each}" for each in ids]}}
    (tmp_path / "config.json").write_text(json.dumps(facts))
    manifest = [{"Config": f"{'c' * 64}.json", "RepoTags": ["x:y"], "Layers": [f"{each}/layer.tar" for each in ids]}]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(tmp_path / "docker.tar", "w") as tar:
        tar.add(tmp_path / "config.json", f"{'c' * 64}.json")
        tar.add(base_tar, f"{ids[0]}/layer.tar")
        tar.add(tmp_path / "top.tar", f"{ids[1]}/layer.tar")
        tar.add(tmp_path / "manifest.json", "manifest.json")
    image = import_image(images, tmp_path / "docker.tar", fresh(), print)
    assert image.source.startswith("a docker archive")
    check_layers(image)


def test_an_image_without_python_is_refused(tmp_path: Path, images: Path, fresh: FreshName) -> None:
    (tmp_path / "tree/usr/bin").mkdir(parents=True)
    (tmp_path / "tree/usr/bin/sh").touch(0o755)
    subprocess.run(["tar", "-C", tmp_path / "tree", "-cf", tmp_path / "x.tar", "."], check=True)
    name = fresh()
    with pytest.raises(ImageError, match="has no python3, which hotdesk needs inside a desk; install it"):
        import_image(images, tmp_path / "x.tar", name, print)
    assert leftovers(images) == ([], False)
    with pytest.raises(ImageError):
        find(images, name)


@pytest.mark.parametrize(
    "data", [b"", b"not a tar at all" * 1000, gzip.compress(b"x" * 5000, mtime=0), b"\x28\xb5\x2f\xfd" * 9]
)
def test_an_invalid_archive_is_refused_in_one_line(data: bytes, tmp_path: Path, images: Path, fresh: FreshName) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(ImageError, match="cannot be imported") as caught:
        import_image(images, tmp_path / "x.tar", fresh(), print)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_path_that_is_not_an_archive_is_the_callers_mistake(tmp_path: Path, images: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(BriefError):
            import_image(images, path, "never", print)
