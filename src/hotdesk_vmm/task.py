"""The task that the keeper gives a supervisor: one JSON file, written and read by this module."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

FOLDER = "/run/vm"
"""The supervisor's read-only folder with its task, the image's layers and its template."""
TASK = "task.json"
RAM, STATE = "ram", "state"
"""Names of a template's files: the machine's memory, and the rest of its state."""
SAVED_FD = 3
"""The descriptor with which a supervisor starts if its machine was saved with its memory: the file."""
MEMORY_SOCKET = "\0hotdesk-memory"
"""Where a supervisor waits for calls of its wall to save the machine with its memory.

A call is one byte with a file. The answer is one byte, and after `SAVED` the machine stands still until the caller
sends another byte or disconnects; then a second `SAVED` reports that it continues.
"""
SAVED, FAILED, FULL, RESTLESS = b"1", b"0", b"f", b"r"
"""Answers: saved; not saved; the disk is full; a program does not stop. All but the first after it has continued."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of the desk's image, as a file with a file system."""

    file: str
    """Its file name in `FOLDER`."""
    kind: str
    options: str = ""
    """Its mount options."""


@dataclass(frozen=True, slots=True)
class VmTask:
    """The configuration of one machine."""

    machine: str
    """The architecture, as in `uname -m`."""
    accelerator: Literal["kvm", "tcg"]
    memory: int
    """The machine's memory in bytes."""
    cpus: int
    disk: int
    """Size of the desk's writable file system in bytes."""
    layers: tuple[Layer, ...]
    """Topmost first."""
    python: str
    """The path of the interpreter in the desk's image."""
    start: str
    """The name of the file that starts the guest, in the folder with its code."""
    has_template: bool
    """Whether there is a template to start from."""
    makes_template: bool
    """Whether to make a template, and pass it to its receiver."""
    is_saved: bool
    """Whether the machine was saved with its memory, and continues from `SAVED_FD`."""
    pids: int
    shm: int
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Mode and content of files by path below the desk's `/`, beside those with its name."""

    def dump(self) -> str:
        files = {path: (mode, base64.b64encode(data).decode()) for path, (mode, data) in self.files.items()}
        return json.dumps({**asdict(self), "files": files})

    @staticmethod
    def load(text: str) -> VmTask:
        values: dict[str, Any] = json.loads(text)
        files = {path: (int(mode), base64.b64decode(data)) for path, (mode, data) in values.pop("files").items()}
        layers = tuple(Layer(**each) for each in values.pop("layers"))
        return VmTask(**values, layers=layers, files=files)
