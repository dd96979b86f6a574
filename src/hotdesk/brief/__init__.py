"""The brief: the goal of a job and its limits, such as hosts, secrets and budget.

`brief` defines the whole brief as data; `load` reads it from TOML, JSON or Python, and `ceiling` compares it with the
operator's limits. `data` has frozen data for network access; `rules` and `grants` read and write it as one line of text
or one table, the same on the command line and in a file; `wire` passes it to other processes. `names` and `paths`
define valid hosts and paths, both for briefs and for requests of a desk.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotdesk.brief.data import ANY as ANY
    from hotdesk.brief.data import CLOSED as CLOSED
    from hotdesk.brief.data import READ as READ
    from hotdesk.brief.data import Grant as Grant
    from hotdesk.brief.data import PlaceKind as PlaceKind
    from hotdesk.brief.data import Rule as Rule
    from hotdesk.brief.data import Scheme as Scheme
    from hotdesk.brief.data import Scope as Scope
    from hotdesk.brief.data import SecretPlace as SecretPlace
    from hotdesk.brief.data import Verdict as Verdict
    from hotdesk.brief.grants import check_grant as check_grant
    from hotdesk.brief.grants import grant_text as grant_text
    from hotdesk.brief.grants import parse_grant as parse_grant
    from hotdesk.brief.rules import check_rule as check_rule
    from hotdesk.brief.rules import parse_rule as parse_rule
    from hotdesk.brief.rules import parse_rule_table as parse_rule_table
    from hotdesk.brief.rules import rule_text as rule_text
    from hotdesk.brief.wire import compute_digest as compute_digest
    from hotdesk.brief.wire import describe_scope as describe_scope
    from hotdesk.brief.wire import parse_scope as parse_scope
    from hotdesk.brief.wire import scope_json as scope_json

PUBLIC = {
    "data": "ANY CLOSED READ Grant SecretPlace PlaceKind Rule Scheme Scope Verdict",
    "grants": "check_grant grant_text parse_grant",
    "rules": "check_rule parse_rule parse_rule_table rule_text",
    "wire": "compute_digest describe_scope parse_scope scope_json",
}
"""The module of each public name, imported on demand: the keeper needs only `data`, and starts faster."""


def __getattr__(name: str) -> object:
    for module, names in PUBLIC.items():
        if name in names.split():
            return getattr(import_module(f"hotdesk.brief.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
