"""Test the wall on this machine, measure by measure, in desks opened for the purpose.

`measure.py` defines measures and findings. `machine.py` checks the host alone, `outside.py` an open desk from the
host's /proc; `inside.py` runs programs in it, `limits.py` has small desks exceed their limits, `life.py` searches for
remains of one. Each gathers facts first and judges them afterwards: a judgement is a pure function of data.
`examination.py` has the order.

Reports from a desk are untrusted: bounded, parsed, escaped. Where the host can check for itself, it does. A probe that
does not report counts as failed, because a broken wall could have silenced it.
"""
