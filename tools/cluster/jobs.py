"""Jobs and swarms in the lab: started over the API, while agent, server, kubelet and node are killed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.cluster.lab import Lab, wait_for

ROOT = Path(__file__).parents[2]
TEMPLATES = {"letters": ROOT / "tools/cluster/letters", "invoices": ROOT / "examples/invoices-small"}
INVOICES_TEMPLATE = 'title = "Five invoices"\ntext = "Compares five invoices with an ERP."\n'
JOB_SECONDS, SWARM_SECONDS = 600.0, 2400.0
ITEMS = int(os.environ.get("LAB_ITEMS", "200"))
SMALL = 40
"""Items of the swarm that loses a node."""
MOST = 6
"""Items of the swarm at once."""
Job = dict[str, Any]


class ServerApi:
    """Calls the server's API from within its pod's network, which outlives the server's process."""

    def __init__(self, key: str, server: int) -> None:
        self.key = key
        self.network = os.open(f"/proc/{server}/ns/net", os.O_RDONLY)

    def call(self, method: str, path: str, data: bytes | None = None, *, check: bool = True) -> bytes:
        """Make one request; return the body of its answer, or nothing if it failed and may fail."""
        argv = ["nsenter", f"--net=/proc/self/fd/{self.network}", "curl", "-sS", "--fail-with-body", "-X", method]
        argv += ["-m", "60", "-H", f"Authorization: Bearer {self.key}", "-H", "Content-Type: application/json"]
        argv += [*(["--data-binary", "@-"] if data is not None else []), f"http://127.0.0.1:3700/api/v1{path}"]
        done = subprocess.run(argv, input=data, capture_output=True, check=False, pass_fds=[self.network])
        if done.returncode and check:
            raise RuntimeError(f"{method} {path}: {done.stdout.decode()} {done.stderr.decode()}")
        return b"" if done.returncode else done.stdout

    def send(self, method: str, path: str, body: object) -> Job:
        found: Job = json.loads(self.call(method, path, json.dumps(body).encode()) or b"{}")
        return found

    def read_job(self, job: str) -> Job:
        """Return a job; empty while the server does not answer."""
        found: Job = json.loads(self.call("GET", f"/jobs/{job}", check=False) or b"{}")
        return found

    def close(self) -> None:
        os.close(self.network)


def install_templates(lab: Lab) -> None:
    """Copy the templates into the server's state, as an operator does."""
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, folder in TEMPLATES.items():
                tar.add(folder, name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
            text = INVOICES_TEMPLATE.encode()
            entry = tarfile.TarInfo("invoices/template.toml")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        unpack = "mkdir -p /state/lib/templates; tar -x --no-same-owner -C /state/lib/templates"
        pod = ("exec", "-i", "-n", "hotdesk", "hotdesk-server-0", "--", "sh", "-c", unpack)
        lab.kubectl(*pod, stdin=buffer.getvalue())


class Swarm:
    """A swarm of lines, which is resumed whenever its process was killed, and what it must come to."""

    def __init__(self, api: ServerApi, count: int) -> None:
        self.api = api
        self.words = {f"word-{number:03}": len(f"word-{number:03}") for number in range(count)}
        upload = json.loads(api.call("POST", "/uploads?name=lines.txt", "".join(f"{w}\n" for w in self.words).encode()))
        order = {"template": "letters", "approve": "auto", "swarm": {"most": MOST},
                 "files": [{"upload": upload["id"], "name": "lines.txt"}]}  # fmt: skip
        self.job = str(api.send("POST", "/jobs", order)["id"])
        self.resumed = 0

    def count_done(self) -> int:
        return int((self.api.read_job(self.job).get("items") or {"done": 0})["done"])

    def advance(self, is_reached: Callable[[Job], bool]) -> Job:
        """Wait for a state of the swarm; continue it if it stopped."""
        end = time.monotonic() + SWARM_SECONDS
        while not is_reached(job := self.api.read_job(self.job)):
            if job.get("state") in ("broken", "failed") or time.monotonic() > end:
                raise RuntimeError(f"the swarm: {job}")
            if job.get("state") in ("paused", "killed") and not job["live"]:
                self.resumed += bool(self.api.call("POST", f"/jobs/{self.job}/resume", b"{}", check=False))
            time.sleep(1)
        return job

    def wait_done(self, count: int) -> None:
        self.advance(lambda job: bool(job) and (job.get("items") or {"done": 0})["done"] >= count)

    def finish(self) -> None:
        """Wait for the end; every item must be done once, and the register must have each line once."""
        self.advance(lambda job: job.get("state") == "done")
        swarm = json.loads(self.api.call("GET", f"/jobs/{self.job}/swarm"))
        counts = swarm["items"], swarm["done"], swarm["quarantined"]
        if counts != (len(self.words), len(self.words), 0):
            raise RuntimeError(f"items, done and quarantined are {counts}: {swarm['failures']}")
        register = self.api.call("GET", f"/drive/{swarm['report'][0]['name']}").decode().splitlines()[1:]
        found = sorted((word, int(letters)) for _, word, letters in (row.split(",") for row in register))
        if found != sorted(self.words.items()):
            raise RuntimeError(f"the register has {len(found)} rows, not each line once")


class JobSteps:
    """The steps with jobs, in order."""

    def __init__(self, lab: Lab, key: str, server_pid: Callable[[], int]) -> None:
        self.lab = lab
        self.server_pid = server_pid
        self.api = ServerApi(key, server_pid())
        self.swarm: Swarm | None = None

    def store_password(self, password: str) -> None:
        """Store the password of the ERP in the server's vault; from there it goes, sealed, to the keys of a node."""
        self.api.send("PUT", "/vault/erp-password", {"kind": "token", "value": password})

    def run_invoices(self) -> str:
        """Carry out the example of five invoices: two desks, a browser, an ERP, a checked and signed workbook."""
        job = str(self.api.send("POST", "/jobs", {"template": "invoices", "approve": "auto"})["id"])
        ended = ("done", "failed", "broken", "paused", "killed")
        wait_for(lambda: self.api.read_job(job).get("state") in ended, JOB_SECONDS, "the end of the job")
        told = self.api.read_job(job)
        verdicts = [each["verdict"] for each in told["deliverables"]]
        if told["state"] != "done" or verdicts != ["passed"]:
            raise RuntimeError(f"the job is {told['state']}, its deliverables {verdicts}: {told}")
        return "workbook passed its checks"

    def kill_during_swarm(self) -> str:
        """Run a swarm, and kill an agent, the server and a kubelet while it runs."""
        self.swarm = swarm = Swarm(self.api, ITEMS)
        # An agent is the child of its container's first process.
        agent = (b"hotdesk", b"node", b"run")
        killed = [("node2", agent, 1), ("node1", (b"hotdesk", b"serve"), 0), ("node1", (b"kubelet",), 0)]
        for number, (machine, words, place) in enumerate(killed, 1):
            swarm.wait_done(ITEMS * number // 5)
            os.kill(self.lab.find_process(machine, *words, place=place), 9)
        swarm.finish()
        return f"{ITEMS} items, resumed {swarm.resumed} times"
