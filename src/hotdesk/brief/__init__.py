"""What is asked, inside which limits: where a desk may go, and which secrets go with it.

How it works: `data` holds plain frozen data; `rules` and `grants` read and write it as one line of text or one table,
the same for the command line and a file; `wire` carries it across a process border. `names` and `paths` say what a
host and a path are, for what is written here and for what a desk sends alike.
"""

from hotdesk.brief.data import (
    ANY,
    CLOSED,
    READ,
    Grant,
    Place,
    PlaceKind,
    Rule,
    Scheme,
    Scope,
    Verdict,
)
from hotdesk.brief.grants import check_grant, grant_text, parse_grant
from hotdesk.brief.rules import check_rule, parse_rule, parse_rule_table, rule_text
from hotdesk.brief.wire import digest, parse_scope, scope_json

__all__ = [
    "ANY",
    "CLOSED",
    "READ",
    "Grant",
    "Place",
    "PlaceKind",
    "Rule",
    "Scheme",
    "Scope",
    "Verdict",
    "check_grant",
    "check_rule",
    "digest",
    "grant_text",
    "parse_grant",
    "parse_rule",
    "parse_rule_table",
    "parse_scope",
    "rule_text",
    "scope_json",
]
