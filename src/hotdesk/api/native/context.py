"""State that requests share: keys, tenants, sessions, running jobs, uploads, idempotency records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from hotdesk.api.idempotency import IdempotentRequests
from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.native.desks.viewers import Viewers
from hotdesk.api.native.jobs.delivered_checks import Checked
from hotdesk.api.native.jobs.ledger import JobLedger
from hotdesk.api.native.jobs.requests import Jobs
from hotdesk.api.native.jobs.story_cache import Stories
from hotdesk.api.native.jobs.swarm_cache import SwarmCache
from hotdesk.api.native.metrics import Measures
from hotdesk.api.native.problems import ProblemError
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenant, Tenants
from hotdesk.dataclass import dataclass
from hotdesk.job.record.decisions import get_journal_path

Offer = Callable[[str, bytes, str, bool], str]
"""Makes a link to content from its tenant, bytes, name and whether it is a report of ours; returns the link's path."""


def _make_key_reused_error() -> ProblemError:
    return ProblemError(409, "idempotency.reused", "this Idempotency-Key was used for another request; use a new one")


@dataclass(slots=True)
class Native:
    """The state of one server's native API."""

    serving: Serving
    keys: ApiKeys
    tenants: Tenants
    sessions: Browsers
    jobs: Jobs
    offer: Offer | None = None
    templates: tuple[Path, ...] = ()
    """Folders of job templates; if two have a template of the same name, the first folder's is used."""
    streams: Counter[str] = field(default_factory=Counter)
    """Number of open event streams, by tenant."""
    views: Counter[str] = field(default_factory=Counter)
    """Number of open screens, terminals and streams of desks, by tenant."""
    idempotency: IdempotentRequests = field(default_factory=lambda: IdempotentRequests(_make_key_reused_error, 86400.0))
    viewers: Viewers = field(default_factory=Viewers)
    measures: Measures = field(default_factory=Measures)
    ledgers: dict[str, JobLedger] = field(default_factory=dict)
    stories: Stories = field(default_factory=Stories)
    swarms: SwarmCache = field(default_factory=SwarmCache)
    checks: dict[str, Checked] = field(default_factory=dict)

    def get_ledger(self, tenant: Tenant) -> JobLedger:
        return self.ledgers.setdefault(tenant.name, JobLedger(tenant.settings))

    def get_checks(self, tenant: Tenant) -> Checked:
        return self.checks.setdefault(tenant.name, Checked(get_journal_path(tenant.settings)))
