"""Describes a worker's surroundings in words: desk, network, secrets by name. No secret's value is included."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hotdesk.brief import CLOSED, Grant, Rule, Scope, rule_text
from hotdesk.brief.brief import Brief
from hotdesk.config import GIB
from hotdesk.desk.image.description import ImageFacts

_NO_QUERY = re.compile(r"\?(?=[` ])")
MAX_RULES = 20
"""Maximum rules that are listed."""
NO_NETWORK = (
    "This step has no network: no host can be reached, no name resolves, and pip, npm and apt cannot download "
    "anything. That is intended; do not debug DNS or proxies."
)
PROXY = (
    "The only way out is the HTTP proxy that is already set in the environment. Names do not resolve on the desk "
    "itself; that is intended, do not debug DNS."
)

WAITING = (
    "That takes minutes: give the program a timeout of at least five, such as `pip --timeout 300`, because a retry "
    "asks the person again. A request that the person refuses, or does not answer in time, ends with status 403."
)


def describe_desk(image: ImageFacts, job: Brief) -> str:
    """Describe the desks of a job: the image's programs and libraries, and the size."""
    size = job.size
    limits = f"{size.cpus:g} CPUs, {size.memory / GIB:g} GiB of memory, {size.disk / GIB:g} GiB of disk"
    return f"{image.text} Size: {limits}. Home folder: /home/user.".strip()


def describe_network(step: str, scope: Scope) -> str:
    """Describe what a step can reach; `scope` is what the plan permits."""
    if scope == CLOSED:
        return NO_NETWORK
    rules = [rule for rule in scope.rules if rule.step in ("", step)]
    gated = [rule for rule in rules if rule.verdict == "ask"]
    decided = {*map(_write_rule, gated)}  # of two otherwise equal rules, the one that asks takes precedence
    admitted = _list_rules([rule for rule in rules if rule.verdict == "allow" and _write_rule(rule) not in decided])
    on_approval = _list_rules(gated)
    if not admitted and not on_approval:
        return NO_NETWORK
    parts = [
        PROXY,
        f"In this step it admits: {admitted}." if admitted else "In this step it admits no request without approval.",
        f"A person must approve each of these requests, which wait for the answer: {on_approval}. {WAITING}"
        if on_approval
        else "",
        "It refuses everything else.",
        _explain_notation(f"{admitted} {on_approval}"),
    ]
    return " ".join(filter(None, parts))


def describe_secrets(grants: Sequence[Grant]) -> tuple[str, ...]:
    """Describe how to use each secret of a step: by its placeholder's variable, or without doing anything."""
    return tuple(dict.fromkeys(map(_describe_secret, grants)))


def _describe_secret(grant: Grant) -> str:
    host = grant.host if grant.port == 443 else f"{grant.host}:{grant.port}"
    if not grant.env:
        return f"{grant.secret} is added to your requests to {host} outside the desk. You need not send it."
    return (
        f"${grant.env} holds a placeholder for {grant.secret}. Use it where the secret belongs in requests to {host}; "
        f"the real value replaces it outside the desk. It works nowhere else. To type it into a web page, read it with "
        f"`printenv {grant.env}` first: browser tools do not expand variables."
    )


def _explain_notation(rules: str) -> str:
    parts = [
        "`*` stands for anything but `/`, `**` for anything" if "*" in rules else "",
        "`?` with nothing after it means that no query may be sent" if _NO_QUERY.search(rules) else "",
        "`?` is followed by the only parameters that may be sent" if "?" in _NO_QUERY.sub("", rules) else "",
    ]
    notation = "; ".join(filter(None, parts))
    return f"In these rules {notation}." if notation else ""


def _write_rule(rule: Rule) -> str:
    return rule_text(replace(rule, verdict="allow", step=""))


def _list_rules(rules: Sequence[Rule]) -> str:
    texts = dict.fromkeys(map(_write_rule, rules))
    shown = [f"`{text}`" for text in texts][:MAX_RULES]
    more = [f"and {len(texts) - MAX_RULES} more"] if len(texts) > MAX_RULES else []
    return ", ".join([*shown, *more])
