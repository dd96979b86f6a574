"""Starts the guest. Its argument is the folder that holds the socket to dial.

A file of its own, because `python -c` makes newer Pythons import what only tracebacks need.
"""

import sys

sys.path.insert(0, __file__.rpartition("/hotdesk_guest/")[0])

from hotdesk_guest import agent

agent.main(sys.argv[1] + "/link.sock")
