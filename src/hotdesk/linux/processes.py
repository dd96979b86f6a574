"""Facts about a process from /proc."""

from __future__ import annotations

import signal


def read_status(pid: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status. The process chooses its name, which can have any bytes but a newline."""
    with open(f"/proc/{pid}/status", "rb") as file:
        lines = [line.decode(errors="replace") for line in file]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def is_dying(pid: int) -> bool:
    """Return whether a process was killed, even if it must still be thawed to die."""
    try:
        status = read_status(pid)
    except OSError:
        return True
    pending = int(status.get("SigPnd", "0"), 16) | int(status.get("ShdPnd", "0"), 16)
    return bool(pending >> (signal.SIGKILL - 1) & 1) or status.get("State", "").startswith(("Z", "X"))
