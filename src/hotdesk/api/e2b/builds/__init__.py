"""E2B's template builds: steps run in a desk, each result is an image layer that later builds can reuse.

`routes.py` answers the wire calls, `runner.py` carries out one build, `records.py` is what a tenant has. Nothing that a
caller uploads is parsed outside a desk: archives are unpacked by a program inside (`unpack_program.py`).
"""
