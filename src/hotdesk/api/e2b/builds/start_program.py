"""Stored in a template's image as `/usr/local/lib/hotdesk/ready`: runs the start command and waits until it is ready.

Run whenever a desk of the image starts. `build` shows the command's output, and kills the command once it is ready.
"""

# ruff: noqa: S108, S606, UP031 - it runs inside a desk
from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from typing import Any

ORDER: dict[str, Any] = json.loads("{}")  # replaced by the template's start settings
MARK = "/dev/shm/.template-started"
"""In memory, so that a desk that starts again does not have it."""
SHELL = ["/bin/bash", "-l", "-c"]
LISTENING = """
import sys
port = sys.argv[-1].lstrip(":")
for kind in ("tcp", "tcp6", "udp", "udp6"):
    for line in list(open("/proc/net/" + kind))[1:]:
        words = line.split()
        if words[3] in ("0A", "07") and int(words[1].rpartition(":")[2], 16) == int(port):
            print(kind, port)
"""
PORTS = 'command -v ss >/dev/null || ss() { "$TEMPLATE_PYTHON" -I -S -c "$TEMPLATE_LISTENING" "$@"; }; '
"""Replaces `ss`, which the SDK's `wait_for_port` runs, in an image without it."""


def become(name: str) -> None:
    user = pwd.getpwnam(name)
    os.initgroups(name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=name, LOGNAME=name)


def start(shows: bool) -> subprocess.Popen[bytes] | None:
    """Run the start command, unless that was done; return its process if it was started here."""
    try:
        os.close(os.open(MARK, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return None
    output = None if shows else subprocess.DEVNULL
    return subprocess.Popen(
        [*SHELL, ORDER["start"]], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )


def wait_ready(end: float, command: subprocess.Popen[bytes] | None) -> bool:
    """Run the ready command until it succeeds; `False` on a timeout, or if the start command has failed."""
    pause = 0.05
    while time.monotonic() < end:
        try:
            limit = max(1.0, end - time.monotonic())
            done = subprocess.run(
                [*SHELL, PORTS + "\n" + ORDER["ready"]],
                env={**os.environ, "TEMPLATE_PYTHON": sys.executable, "TEMPLATE_LISTENING": LISTENING},
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=limit,
            )
            if done.returncode == 0:
                return True
        except subprocess.TimeoutExpired:
            return False
        if command is not None and command.poll():
            return False
        time.sleep(pause)
        pause = min(2 * pause, 1.0)
    return False


def main() -> None:
    """Start and wait, as the template's user."""
    name = pwd.getpwuid(os.getuid()).pw_name
    if name != ORDER["user"]:
        if os.getuid() != 0:
            os.execvp("sudo", ["sudo", "-E", sys.executable, "-I", os.path.abspath(__file__), *sys.argv[1:]])
        become(ORDER["user"])
    os.environ.update(ORDER["env"])
    try:
        os.chdir(ORDER["workdir"] or os.environ.get("HOME", "/"))
    except OSError as e:
        sys.exit("the working folder {!r} cannot be used: {}".format(ORDER["workdir"], e.strerror))
    builds = sys.argv[1:] == ["build"]
    command = start(builds) if ORDER["start"] else None
    ready = not ORDER["ready"] or wait_ready(time.monotonic() + ORDER["seconds"], command)
    ended = command.poll() if command is not None else None
    if builds and command is not None:
        with contextlib.suppress(OSError):
            os.killpg(command.pid, signal.SIGKILL)
    if not ready and ended:
        sys.exit("the start command ended with exit status %d" % ended)
    if not ready:
        sys.exit("the ready command did not succeed within %d s" % ORDER["seconds"])


if __name__ == "__main__":
    main()
