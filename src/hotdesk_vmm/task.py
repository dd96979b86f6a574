"""The task that the keeper gives a supervisor: one JSON file, written and read by this module."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

FOLDER = "/run/vm"
"""Where a supervisor finds its task, the image's layers and its template; read-only."""
TASK = "task.json"
RAM, STATE = "ram", "state"
"""Names of a template's files: its memory, and all else of the machine."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the desk's image, as a file system in a file."""

    file: str
    """Its name in `FOLDER`."""
    kind: str
    options: str = ""
    """What it is mounted with."""


@dataclass(frozen=True, slots=True)
class VmTask:
    """One machine."""

    machine: str
    """As `uname -m` says it."""
    accelerator: Literal["kvm", "tcg"]
    memory: int
    """Bytes the machine has."""
    cpus: int
    disk: int
    """Bytes of the desk's writable file system."""
    layers: tuple[Layer, ...]
    """Topmost first."""
    python: str
    """The interpreter in the desk's image."""
    start: str
    """The file that starts the guest, in the folder with its code."""
    has_template: bool
    """Whether there is one to start from."""
    makes_template: bool
    """Whether to make a template, and hand it to its listener."""
    pids: int
    shm: int
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Mode and contents by path below the desk's `/`, beside those that name it."""

    def dump(self) -> str:
        files = {path: (mode, base64.b64encode(data).decode()) for path, (mode, data) in self.files.items()}
        return json.dumps({**asdict(self), "files": files})

    @staticmethod
    def load(text: str) -> VmTask:
        values: dict[str, Any] = json.loads(text)
        files = {path: (int(mode), base64.b64decode(data)) for path, (mode, data) in values.pop("files").items()}
        layers = tuple(Layer(**each) for each in values.pop("layers"))
        return VmTask(**values, layers=layers, files=files)
