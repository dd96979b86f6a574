"""Disposable computers.

How it works: a `Runtime` opens a `Desk` from a `Spec` and burns it. The owner (`owner/`) asks its keeper (`keeper/`),
the one small privileged child, to prepare a room (`room/`: network namespace, writable layer, cgroup, user namespace,
devices) and to start a wall around it (`wall/`). Pid 1 inside is `hotdesk_guest`, which dials back over a socket the
keeper made, and `link/` talks to it. `wall/local/` is a directory and no wall at all, for tests.

The seam is `seam.py`; `tests/conformance/test_desk.py` is what every wall must pass.
"""
