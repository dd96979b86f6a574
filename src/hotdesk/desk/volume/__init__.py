"""Volumes: file systems that outlive desks. Desks mount them; from outside a confined process reads and writes them.

`paths.py` says where one may be mounted; `files.py` has the operations of the content API; `process.py` is the process
that carries them out, shut in one volume. The keeper makes, mounts and removes them (`desk/room/volume_store.py`).
"""
