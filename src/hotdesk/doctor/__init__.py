"""Try the wall on this machine, measure by measure, in desks opened for that.

`measure.py` says what a measure and a finding are. `machine.py` looks at the host alone, `outside.py` at an open desk
from the host's /proc, `inside.py` runs programs in it, `limits.py` has small desks take more than they may, `life.py`
looks for what is left of one. Each gathers first and judges then: a judgement is a function of data. `examination.py`
knows the order.

What a desk says is a desk's word: bounded, parsed, escaped; where the host can see for itself, it does. A probe that
keeps silent counts as failed, because a broken wall could have silenced it.
"""
