"""An E2B program for a server in the lab's cluster; runs inside its network, and prints JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from e2b import Sandbox

url, key, act, *ids = sys.argv[1:]
way: dict[str, Any] = {"api_key": key, "api_url": url, "sandbox_url": url}
if act == "create":
    begun = time.monotonic()
    sandbox = Sandbox.create("base", timeout=600, **way)
    opened = time.monotonic() - begun
    sandbox.files.write("/home/user/name", sandbox.sandbox_id)
    said = sandbox.commands.run("cat /home/user/name; id -un; ls /sys/class/net").stdout
    print(json.dumps({"id": sandbox.sandbox_id, "seconds": opened, "said": said}))
elif act == "read":
    print(json.dumps([Sandbox.connect(each, **way).files.read("/home/user/name") for each in ids]))
elif act == "list":
    print(json.dumps([each.sandbox_id for each in Sandbox.list(**way).next_items()]))
elif act == "kill":
    print(json.dumps([Sandbox.connect(each, **way).kill() for each in ids]))
