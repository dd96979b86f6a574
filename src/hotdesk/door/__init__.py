"""The only way out of a desk.

How it works: the keeper makes a gate, a socket that listens inside a desk's network namespace, and hands it to the
door, a process of its own without privileges (`process.py`, `linux/jail.py`). Keys give it a charter for each desk that
has a scope (`egress.py`). A connection's requests are read, judged, sent on and answered one after the other
(`proxy.py`, `exchange.py`); all that can be decided without I/O is in modules that do none (`http/framing.py`,
`policy/`, `secrets/`). It never sees the vault, nor a desk; `selftest.py` is handed one.
"""
