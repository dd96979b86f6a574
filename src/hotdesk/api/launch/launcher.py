"""The launcher process: the one privileged child of a server, which starts keepers and jobs and nothing else.

It answers a fixed set of requests over a socketpair and reads no byte that a client or a desk wrote: names have a
shape, paths are its own, and the options of a job are a closed list. When the server is gone it stops its jobs so that
they can be resumed, waits for everything it started, and ends. Standard library only, so that it stays small.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hotdesk.api.launch import job_command
from hotdesk.config import Config, find_node_identity, get_tenant_settings
from hotdesk.desk.keeper import parts_keeper
from hotdesk.desk.keeper.spawn import decode_settings, launch
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.ipc.child import MAX_PACKET_BYTES, SOURCE, send_now
from hotdesk.linux import syscalls
from hotdesk.linux.pace import scale_seconds

LINE = 3
"""The file descriptor of the socket to the server."""
RUN = "import sys;sys.path.insert(0,sys.argv.pop(1));from hotdesk.cli import main;main()"
STOP_TIMEOUT_S, BURN_TIMEOUT_S = 20.0, 10.0
"""Seconds jobs have to stop once the server is gone: after the first signal, and after each of two more."""
_ERRANDS = ("secret", "unsecret", "unsave", "adopt")
MAX_ERRANDS = 64
"""Concurrent errands: one waits for its input, and the sender of that may never finish."""
MAX_OUTPUT_BYTES = 2000
"""Bytes that are read of an errand's output."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SOCKET = "serve.sock"
"""The socket for ordinary users of the machine, in the server's `run`."""
PASSED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONPATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR", "HOTDESK_HOME", "HOTDESK_IMAGES", "HOTDESK_RUNTIME", "HOTDESK_DISK", "HOTDESK_DISK_FLOOR",
    "HOTDESK_MEMORY_FLOOR", "HOTDESK_PIDS_FLOOR", "HOTDESK_SIGNERS", "HOTDESK_DEBUG", "HOTDESK_LINGER",
    "HOTDESK_HOLDER", "HOTDESK_VAULT_PASSPHRASE_FILE", "HOTDESK_GVISOR_PROGRAM",
    "HOTDESK_MICROVM_EMULATE",
)  # fmt: skip
"""Environment variables that every command gets: where things are."""
PASSED_LIKE = (
    "PIP_", "npm_config_", "NPM_CONFIG_", "SSL_CERT_", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
"""Prefixes of more such variables: where this machine gets packages, and how it reaches the internet."""
OF_MODELS = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "OPENAI_API_KEY",
    "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "HOTDESK_CHAT_KEY", "HOTDESK_CHAT_URL",
    "HOTDESK_CHAT_WINDOW", "HOTDESK_CHAT_IMAGES", "HOTDESK_LOOPBACK_MODELS",
)  # fmt: skip
"""Variables that only jobs get: the providers' keys and addresses."""


class _UnknownRequestError(Exception):
    """A message of none of the known forms: its sender is not this server's own code."""


class Starting:
    """Starts processes for a server, until the server is gone."""

    def __init__(
        self,
        settings: Config,
        templates: tuple[Path, ...],
        line: socket.socket,
        models: tuple[str, ...] = (),
        socket_file: tuple[int, int] | None = None,
    ) -> None:
        self.settings = settings
        self.socket_file = socket_file
        """Device and inode of the server's own socket, which is removed when the server is gone; another's is left."""
        self.templates = templates
        self.models = models
        """Models the operator lists for jobs; empty: those of the known providers."""
        self.line = line
        self.jobs: dict[tuple[str, str], int] = {}
        """Process ids of running jobs, by tenant and job."""
        self.keepers: set[int] = set()
        self.errands: dict[int, tuple[int, int]] = {}
        """Running errands by process id: the request's number, and a file descriptor of the output."""

    def serve(self) -> None:
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        ears = selectors.DefaultSelector()
        ears.register(self.line, selectors.EVENT_READ)
        ears.register(wake_r, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in ears.select()}
            if wake_r in ready:
                os.read(wake_r, 4096)
                self.reap()
            if self.line.fileno() in ready and not self.receive():
                break
        self.close()

    def receive(self) -> bool:
        """Handle one message; return `False` when the server is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self.line, MAX_PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        try:
            message = json.loads(data)
            if not isinstance(message, dict):
                return False
            self.answer(message, list(fds))
        except (ValueError, RecursionError, _UnknownRequestError):
            return False  # the server is gone, or sent something else than a request: both end the launcher
        finally:
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)
        return True

    def answer(self, message: Mapping[str, object], fds: list[int]) -> None:
        number = message.get("n")
        try:
            pid = self.carry_out(message, fds)
        except HotdeskError as e:
            self.reply(number, e)
        except OSError as e:
            self.reply(
                number, HostError(f"the server could not start a process for this request: {e.strerror}; try again")
            )
        else:
            if message.get("verb") not in _ERRANDS:  # an errand is answered when it ends
                self.reply(number, pid)

    def reply(self, number: object, result: int | HotdeskError) -> None:
        """Answer a request with the process id it concerns, or with an error."""
        if isinstance(result, int):
            self.tell({"re": number, "ok": {"pid": result}})
        else:
            self.tell({"re": number, "error": {"code": result.code, "text": str(result)}})

    def carry_out(self, message: Mapping[str, object], fds: list[int]) -> int:
        """Carry out a request; return the process id it concerns."""
        match message:
            case {"verb": "keeper", "tenant": str(tenant)} if len(fds) == 1:
                return self.start_keeper(tenant, fds[0])
            case {
                "verb": "work" | "swarm" | "resume" as act,
                "tenant": str(tenant),
                "job": str(job),
                "options": dict(options),
                "until": int() | float() as until,
            }:
                if time.monotonic() > until:
                    raise HostError("the server was too busy to start this job in time; start it again")
                return self.start_job(act, tenant, job, options, fds)
            case {"verb": "signal", "tenant": str(tenant), "job": str(job), "signal": int(number)}:
                return self.signal(tenant, job, number)
            case {"verb": str(verb), "tenant": str(tenant), "n": int(number)} if verb in _ERRANDS:
                return self.run_errand(tenant, number, message, fds)
        raise _UnknownRequestError

    def start_keeper(self, tenant: str, fd: int) -> int:
        settings = get_tenant_settings(self.settings, tenant)
        for folder in (settings.run, settings.lib):
            folder.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        with socket.socket(fileno=os.dup(fd)) as theirs:
            if (identity := find_node_identity(settings)) is None:
                pid = launch(settings, theirs)
            else:
                pid = parts_keeper.launch(settings, identity / "authority.pem", theirs)
        self.keepers.add(pid)
        return pid

    def start_job(self, act: str, tenant: str, job: str, options: Mapping[str, object], fds: list[int]) -> int:
        """Start or resume a job of a tenant; it reads a model's key from a descriptor if one came with the request."""
        if (tenant, job) in self.jobs:
            raise BriefError(f"job {job[:40]} is already running")
        settings = get_tenant_settings(self.settings, tenant)
        folder = job_command.get_folder(settings, job)
        argv = job_command.build_command(act, folder, job, options, self.templates, self.models)
        with job_command.outputs(folder) as (stdout, stderr), open(os.devnull, "rb") as nothing:
            places = (fds[0] if options.get("key") and fds else nothing.fileno(), stdout, stderr)
            pid = run(argv, tenant, job_command.read_requester(options), *places, passed=(*PASSED, *OF_MODELS))
        self.jobs[tenant, job] = pid
        return pid

    def run_errand(self, tenant: str, number: int, message: Mapping[str, object], fds: list[int]) -> int:
        """Start an errand, a short command whose result is the answer. Its input came with the request."""
        argv = job_command.build_errand_command(message)
        get_tenant_settings(self.settings, tenant)
        if len(self.errands) >= MAX_ERRANDS:
            raise BriefError(
                f"the server is making {MAX_ERRANDS} changes to secrets and images, which is the limit; try again later"
            )
        output = os.memfd_create("output", os.MFD_CLOEXEC)
        with open(os.devnull, "rb") as nothing:
            pid = run(argv, tenant, "", fds[0] if fds else nothing.fileno(), output, output)
        self.errands[pid] = (number, output)
        return pid

    def signal(self, tenant: str, job: str, number: int) -> int:
        """Send a stop signal to a job; a second one burns its desks."""
        pid = self.jobs.get((tenant, job))
        if pid is None:
            raise BriefError(f"job {job[:40]} is not running")
        if number not in SIGNALS:
            raise BriefError("a job can only be stopped with SIGINT or SIGTERM")
        os.kill(pid, number)  # not reaped yet, so its pid is not reused
        return pid

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self.keepers.discard(pid)
                self.report(pid, os.waitstatus_to_exitcode(status))
                for (tenant, job), job_pid in list(self.jobs.items()):
                    if job_pid == pid:
                        del self.jobs[tenant, job]
                        code = os.waitstatus_to_exitcode(status)
                        self.tell({"event": "ended", "tenant": tenant, "job": job, "code": code})

    def report(self, pid: int, code: int) -> None:
        if pid not in self.errands:
            return
        number, output = self.errands.pop(pid)
        words = os.pread(output, MAX_OUTPUT_BYTES, 0).decode("utf-8", "replace").strip().removeprefix("hotdesk: ")
        os.close(output)
        self.reply(
            number,
            BriefError(words or f"the server's command for this request failed with exit status {code}; try again")
            if code
            else pid,
        )

    def tell(self, message: Mapping[str, object]) -> None:
        """Send a message to the server; nothing if it is gone."""
        with suppress(OSError):
            send_now(self.line, json.dumps(message).encode(), [])

    def close(self) -> None:
        """Remove the server's socket, stop jobs so that they can be resumed, and wait for every child."""
        self.line.close()
        with suppress(OSError):
            remove_file(self.settings.run / SOCKET, self.socket_file)
        for seconds in map(scale_seconds, (STOP_TIMEOUT_S, BURN_TIMEOUT_S, BURN_TIMEOUT_S)):
            for pid in self.jobs.values():
                os.kill(pid, signal.SIGINT)
            end = time.monotonic() + seconds
            while (self.jobs or self.keepers) and time.monotonic() < end:
                self.reap()
                time.sleep(0.005)


def get_file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; `None` if it does not exist."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_dev, found.st_ino
    return None


def remove_file(path: Path, identity: tuple[int, int] | None) -> None:
    """Remove a file if it is still the one that was made; a newer server may have put its own there."""
    if identity is not None and get_file_identity(path) == identity:
        path.unlink()


def run(
    argv: list[str],
    tenant: str,
    requester: str,
    stdin: int,
    stdout: int,
    stderr: int,
    *,
    passed: tuple[str, ...] = PASSED,
) -> int:
    """Start `hotdesk` for a tenant, with the environment variables that may be passed; return its process id."""
    environment = {name: value for name, value in os.environ.items() if name in passed or name.startswith(PASSED_LIKE)}
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", RUN, str(SOURCE), *argv],
        {**environment, "HOTDESK_TENANT": tenant, "HOTDESK_REQUESTER": requester},
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate((stdin, stdout, stderr))],
        setsid=True,
        setsigmask=(),
        setsigdef=SIGNALS,
    )


def main() -> None:
    os.umask(0o022)
    line = socket.socket(fileno=LINE)
    line.set_inheritable(False)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    options = json.loads(sys.argv[3])
    templates = tuple(Path(each) for each in options["templates"])
    socket_file = tuple(options["socket"]) if options["socket"] else None
    models = tuple(options["models"])
    Starting(decode_settings(options["settings"]), templates, line, models, socket_file).serve()
