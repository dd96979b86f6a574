"""The parts of carrying out one job; `work.py` is the line they stand on.

How it works: a job is its events. `record/log.py` writes them down, `record/resume_state.py` folds them into where a
job stands, so that a job that was killed goes on where they end. What is too private or too large for an event is a
sealed paper (`record/papers.py`), the workspace a sealed checkpoint (`checkpoint.py`): both can be forgotten, events
cannot. `stage.py` gives each step its desk and its permissions, `people/` waits for people. `machine.py` is the seam to
a `Host`.
"""
