"""Start the guest. Its argument is the folder with the socket to connect to; `root` after it starts the guest for root.

`sentry` at the end means that the kernel is gVisor's, for which a guest does more (`ports.py`); `vm`, that the kernel
is the desk's own. `machine` and a number of layers start the first process of a virtual machine (`vm.py`).

A file of its own, because `python -c` makes newer Pythons import modules that only tracebacks need.
"""

import marshal
import sys

FOLDER = __file__.rpartition("/")[0]
SUDO = 3
"""The file descriptor of the listening socket of `sudo`, for the guest for root."""


def load(file: str) -> None:
    """Load the modules that were sealed into one file, as if each had been imported."""
    package = sys.modules["hotdesk_guest"] = type(sys)("hotdesk_guest")
    package.__path__ = [FOLDER]
    with open(file, "rb") as modules:
        for name, code in marshal.loads(modules.read()):
            module = sys.modules["hotdesk_guest." + name] = type(sys)("hotdesk_guest." + name)
            setattr(package, name, module)
            exec(code, module.__dict__)  # hotdesk's own code, in a folder of the keeper


try:
    load(FOLDER + "/modules")
except FileNotFoundError:
    del sys.modules["hotdesk_guest"]  # an image that is not sealed has the source
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
