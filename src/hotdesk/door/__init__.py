"""The only way out of a desk.

The keeper creates a gate, a listening socket inside a desk's network namespace, and passes it to the door, an
unprivileged process of its own (`process.py`, `linux/jail.py`). The keys process sends the door a charter for each desk
that has a scope (`egress.py`). The requests of a connection are read, judged, forwarded and answered one after the
other (`proxy.py`, `exchange.py`); every decision that needs no I/O is in modules that do none (`http/framing.py`,
`policy/`, `secrets/`). The door sees neither the vault nor a desk; only `selftest.py` is given a desk.
"""
