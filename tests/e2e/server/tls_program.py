"""A program for E2B that uses TLS, where its connections may use HTTP/2; run by an interpreter with the SDK."""

from __future__ import annotations

import sys
import threading
from typing import Any

from e2b import Sandbox, TimeoutException

key, url = sys.argv[1:]
options: dict[str, Any] = {"api_key": key, "api_url": url, "sandbox_url": url}
sandbox = Sandbox.create(**options)
assert sandbox.commands.run("echo out; echo err >&2").stdout == "out\n"
sandbox.files.write("large.bin", b"\0\xff" * 1_000_000)
assert len(sandbox.files.read("large.bin", format="bytes")) == 2_000_000
fed = sandbox.commands.run("cat", background=True, stdin=True)
sandbox.commands.send_stdin(fed.pid, "told")
sandbox.commands.close_stdin(fed.pid)
assert fed.wait().stdout == "told"
handles = [sandbox.commands.run(f"sleep 0.2; echo {number}", background=True) for number in range(10)]
assert [handle.wait().stdout for handle in handles] == [f"{number}\n" for number in range(10)]
following = sandbox.commands.run("echo begun; sleep 60", background=True)
threading.Timer(0.5, sandbox.kill).start()
why = ""
try:
    following.wait()
except TimeoutException as e:
    why = str(e)
assert "killed" in why, why
assert not sandbox.is_running()
print("all of it")
