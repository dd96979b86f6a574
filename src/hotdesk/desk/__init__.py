"""Disposable computers.

How it works: a `Runtime` opens a `Desk` from a `Spec` and burns it. The owner (`owner/`) asks its keeper (`keeper/`), a
small privileged child process, to prepare a room (`room/`: network namespace, writable layer, cgroup, user namespace,
devices) and to start a wall around it (`wall/`). Process 1 inside is `hotdesk_guest`, which dials back over a socket
the keeper made, and `link/` talks to it. `wall/local/` is a plain directory without isolation, for tests.

The seam is `seam.py`; `tests/conformance/test_desk.py` is what every wall must pass.
"""
