"""Evaluations: run tasks with hidden graders, and report what the worker achieved.

A task is a folder (`task.py`). One run of it (`run.py`) generates a brief at a desk, carries it out with `hotdesk work`
in a state directory of its own, and grades the deliverables at another desk (`grade.py`). Each of these is a child
process (`command.py`), so that a crash fails only one run. `score.py` computes figures from a job's events, `table.py`
formats them. A task's web site is served by a process of its own: `site.py` starts it, `site_process.py` is its
program, `website.py` its HTTPS server.
"""
