"""One brief carried out for many items: one plan, one approval, a desk and a verified result for each item.

How it works: `run.py` holds the order of operations. `items.py` lists the items, `worker.py` works on one item at its
desk, `verify.py` checks deliverables in clean desks, and `results.py` folds events into the state of the swarm, so that
a swarm whose process was killed can be resumed. `reduce.py` builds the report as an ordinary job without network
access. All desks belong to one `Machine`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotdesk.swarm.api import Swarm


class _CallablePackage(ModuleType):
    """This package as a callable module: `hotdesk.swarm(brief)` starts a swarm."""

    def __call__(self, *arguments: Any, **options: Any) -> Swarm:
        from hotdesk.swarm.api import swarm  # importing a part of this package must not load the rest

        return swarm(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
