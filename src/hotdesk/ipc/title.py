"""The names of hotdesk's background processes in `ps` and `top`."""

from __future__ import annotations

from contextlib import suppress


def set_title(module: str) -> None:
    """Name this process after its module: `hotdesk.door.process` becomes `hotdesk-door`."""
    above, _, name = module.rpartition(".")
    if name == "process":
        name = above.rpartition(".")[2]
    with suppress(OSError), open("/proc/self/comm", "w") as file:  # without a writable /proc it stays nameless
        file.write(f"hotdesk-{name}")
