"""Starts the guest. Its argument is the folder that holds the socket to dial; `root` after it starts root's guest.

A file of its own, because `python -c` makes newer Pythons import what only tracebacks need.
"""

import sys

sys.path.insert(0, __file__.rpartition("/hotdesk_guest/")[0])

from hotdesk_guest import agent

SUDO = 3
"""Where root's guest finds the socket `sudo` calls at."""

if sys.argv[2:] == ["root"]:
    agent.main(sys.argv[1] + "/root.sock", SUDO)
else:
    agent.main(sys.argv[1] + "/link.sock")
