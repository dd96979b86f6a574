"""Desks on other machines: node agents open them, and an unprivileged server uses them over mutual TLS.

`agent.py` is the node's side. It speaks the control protocol of `desk/owner/control.py`, below a path for each tenant.
`nodes.py` is the server's side: it finds nodes and follows their reports. `runtime.py` opens desks on nodes. The seam
for finding nodes is `Discovery` in `discovery.py`. Design: docs/design/036-cluster.md.
"""
