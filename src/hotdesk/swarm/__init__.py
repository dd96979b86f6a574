"""One brief over many items: planned once, approved once, each item at a desk of its own, proven per item.

How it works: `run.py` is the order of things. `items.py` lists the items, `worker.py` takes one to its desk,
`verify.py` has deliverables looked at in clean desks, `results.py` folds events into where the swarm stands, so that
one that was killed goes on. `reduce.py` builds the report as an ordinary job that reaches nothing. All desks are of
one `Machine`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotdesk.swarm.api import Swarm


class _CallablePackage(ModuleType):
    """This package, which is also the function that people call: `hotdesk.swarm(brief)`."""

    def __call__(self, *arguments: Any, **options: Any) -> Swarm:
        from hotdesk.swarm.api import swarm  # who imports a part of this package need not load the rest

        return swarm(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
