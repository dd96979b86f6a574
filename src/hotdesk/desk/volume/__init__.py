"""Volumes: file systems that outlive desks. Desks mount them; from outside a confined process reads and writes them.

`paths.py` checks mount points; `files.py` has the operations of the content API; `process.py` is the process that
carries them out, confined to one volume. The keeper creates, mounts and removes volumes (`desk/room/volume_store.py`).
"""
