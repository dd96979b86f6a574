"""Planning and acting by models.

A `Brain` (`seam.py`) makes a plan and carries out each step at a `Stage`; it never has access to a desk. The one
implementation is `brain.py`: models plan (`planning.py`, with the audit against the brief in `plan_audit.py`) and act
(`loop.py`). `permits.py` and `amendments.py` decide what a plan permits; `compaction.py` and `notes.py` what a worker
remembers; `models/` has the models.
"""
