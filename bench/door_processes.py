"""The processes of the door's measurements: servers, loads, and the resources they use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.door_load import Load

MITMPROXY = "mitmproxy==11.0.2"


def peer_folder() -> Path:
    """Return the folder of mitmproxy's virtual environment."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hotdesk-bench" / MITMPROXY.replace("==", "-")


def install() -> None:
    """Create mitmproxy's virtual environment if it does not exist."""
    folder = peer_folder()
    if (folder / "bin" / "mitmdump").exists():
        return
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    python = sys._base_executable  # type: ignore[attr-defined]
    subprocess.run([uv, "venv", "--quiet", "--no-python-downloads", "--python", python, folder], check=True)
    into = ["--python", str(folder / "bin" / "python"), "--compile-bytecode"]
    subprocess.run([uv, "pip", "install", "--quiet", *into, MITMPROXY], check=True)


@contextmanager
def server(*argv: str, python: str = sys.executable) -> Iterator[tuple[int, int]]:
    """Run a server for the length of a block; yield its process id and port."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([python, *argv], **streams) as process:  # type: ignore[call-overload]
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def part_pid(program: str, root: Path) -> int:
    """Return the process id of the door or keys process that a keeper started, not of their children."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().decode().split("\0")
            if program in argv and str(root) in argv[-2]:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
    return next(pid for pid, parent in found.items() if parent not in found)


def cpu_seconds(pid: int) -> float:
    """Return the seconds of processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_line(pid: int, name: str) -> float:
    """Return a memory figure of a process's status, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


def drive(load: Load, *pids: int) -> tuple[dict[str, float], list[float]]:
    """Run a load; return its results, and the processor time of each process since the load was warm."""
    argv = [sys.executable, "-m", "bench.door_load", json.dumps(asdict(load))]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **streams) as process:  # type: ignore[call-overload]
        warm = process.stdout.readline()
        before = [cpu_seconds(pid) for pid in pids]
        told, _ = process.communicate("go\n")
        if warm != "warm\n" or process.returncode:
            raise RuntimeError(f"the load at {load.host} failed")
        return json.loads(told), [cpu_seconds(pid) - used for pid, used in zip(pids, before, strict=True)]
