"""The parts that carry out one job; `work.py` runs them in order.

A job is its events: `record/log.py` writes them, and `record/resume_state.py` folds them into the state of the job,
from which a killed job resumes. Data too private or too large for an event is stored as a sealed paper
(`record/papers.py`), the workspace as a sealed checkpoint (`checkpoint.py`). Both can be deleted; events cannot.
`stage.py` gives each step its desk and its permissions, `people/` waits for people. `machine.py` is the seam to a
`Host`.
"""
