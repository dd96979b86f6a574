"""E2B's template builds: steps run in a desk, each result is an image layer that later builds can reuse.

`routes.py` answers the API calls, `runner.py` carries out one build, `records.py` has a tenant's templates. Uploads are
never parsed outside a desk: a program inside unpacks archives (`unpack_program.py`).
"""
