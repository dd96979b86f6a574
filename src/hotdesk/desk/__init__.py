"""Disposable computers.

How it works: a `Runtime` opens a `Desk` from a `Spec` and burns it. `oci.py` is the container wall: it asks its
keeper, the one small privileged child, to prepare a room (network namespace, writable layer, cgroup, user
namespace, devices) and to start an OCI runtime in it; pid 1 inside is `hotdesk_guest`, which dials back over a
socket the keeper made, and `link.py` talks to it. `local.py` is a directory and no wall at all, for tests.

The seam is `seam.py`; `tests/conformance/test_desk.py` is what every wall must pass.
"""
