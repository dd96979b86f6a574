"""Planning and acting by models.

How it works: a `Brain` (`seam.py`) gives a plan, and takes each step at a `Stage`, never at a desk. `brain.py` is the
one there is: models plan (`planning.py`, held against the brief by `audit.py`) and act (`loop.py`). `permits.py` and
`amendments.py` say what a plan permits; `memory.py` and `notes.py` what is remembered; `models/` is who is asked.
"""
