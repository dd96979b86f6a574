"""Starts the guest. Its argument is the folder that holds the socket to dial; `root` after it starts root's guest.

`sentry` at the end says that the kernel is gVisor's, for which a guest does more (`ports.py`); `vm`, that it is the
desk's own. `machine` and a number of layers start the first process of such a desk (`vm.py`).

A file of its own, because `python -c` makes newer Pythons import what only tracebacks need.
"""

import marshal
import sys

FOLDER = __file__.rpartition("/")[0]
SUDO = 3
"""Where root's guest finds the socket `sudo` calls at."""


def load(file: str) -> None:
    """Have the modules that were sealed together, as if each had been imported."""
    package = sys.modules["hotdesk_guest"] = type(sys)("hotdesk_guest")
    package.__path__ = [FOLDER]
    with open(file, "rb") as modules:
        for name, code in marshal.loads(modules.read()):
            module = sys.modules["hotdesk_guest." + name] = type(sys)("hotdesk_guest." + name)
            setattr(package, name, module)
            exec(code, module.__dict__)  # code of our own, in a folder of the keeper's


try:
    load(FOLDER + "/modules")
except FileNotFoundError:
    del sys.modules["hotdesk_guest"]  # an image that is not sealed has them as source
    sys.path.insert(0, FOLDER.rpartition("/")[0])

from hotdesk_guest import agent

if "machine" in sys.argv[2:3]:
    from hotdesk_guest import vm

    vm.main(int(sys.argv[3]))
root = "root" in sys.argv[2:]
agent.main(
    sys.argv[1] + ("/root.sock" if root else "/link.sock"),
    SUDO if root else None,
    "sentry" in sys.argv[2:],
    "vm" in sys.argv[2:],
)
