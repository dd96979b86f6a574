"""Desks on other machines: node agents lend them, an unprivileged server uses them, over mutual TLS.

`agent.py` is a node's side; it speaks the control protocol of `desk/owner/control.py`, below a path for each tenant.
`nodes.py` is a server's side: which nodes there are, what each has free. `runtime.py` opens desks there.
The seam for finding nodes is `Discovery` in `discovery.py`. Design: docs/design/036-cluster.md.
"""
