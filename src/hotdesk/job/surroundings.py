"""What surrounds a worker, in words: its desk, what a step can reach, with which secrets. Never a secret's value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hotdesk.brief import CLOSED, Grant, Rule, Scope, rule_text
from hotdesk.brief.brief import Brief
from hotdesk.config import GIB
from hotdesk.desk.image.description import describe_image

MAX_RULES = 20
"""Rules that are listed."""
NO_NETWORK = (
    "This step has no network: no host can be reached, no name resolves, and pip, npm and apt cannot download "
    "anything. That is intended; do not debug DNS or proxies."
)
PROXY = (
    "The only way out is the HTTP proxy that is already set in the environment. Names do not resolve on the desk "
    "itself; that is intended, do not debug DNS."
)


def describe_desk(images: Path, job: Brief) -> str:
    """Say what the desks of a job are like: the image's programs and libraries, and the size."""
    size = job.size
    limits = f"{size.cpus:g} CPUs, {size.memory / GIB:g} GiB of memory, {size.disk / GIB:g} GiB of disk"
    return f"{describe_image(images, job.image)} Size: {limits}. Home folder: /home/user.".strip()


def describe_network(step: str, scope: Scope) -> str:
    """Say what a step can reach: `scope` is what the plan permits."""
    if scope == CLOSED:
        return NO_NETWORK
    rules = [rule for rule in scope.rules if rule.step in ("", step)]
    admitted = _list_rules([rule for rule in rules if rule.verdict == "allow"])
    approvable = _list_rules([rule for rule in rules if rule.verdict == "ask"])
    if not admitted and not approvable:
        return NO_NETWORK
    parts = [
        PROXY,
        f"In this step it admits: {admitted}." if admitted else "It admits no request of this step by itself.",
        f"It asks a person before it admits: {approvable}." if approvable else "",
        "It refuses everything else.",
    ]
    return " ".join(filter(None, parts))


def describe_secrets(grants: Sequence[Grant]) -> tuple[str, ...]:
    """Say for each secret of a step how it is used: the variable of its placeholder, or that nothing is to be done."""
    return tuple(dict.fromkeys(map(_describe_secret, grants)))


def _describe_secret(grant: Grant) -> str:
    """Say how one secret is used."""
    host = grant.host if grant.port == 443 else f"{grant.host}:{grant.port}"
    if not grant.env:
        return f"{grant.secret} is added to your requests to {host} outside the desk. You need not send it."
    return (
        f"${grant.env} holds a placeholder for {grant.secret}. Use it where the secret belongs in requests to {host}; "
        "the real value replaces it outside the desk. It works nowhere else."
    )


def _list_rules(rules: Sequence[Rule]) -> str:
    """Write rules as a plan writes them, some of them where there are many."""
    texts = dict.fromkeys(rule_text(replace(rule, verdict="allow", step="")) for rule in rules)
    shown = [f"`{text}`" for text in texts][:MAX_RULES]
    more = [f"and {len(texts) - MAX_RULES} more"] if len(texts) > MAX_RULES else []
    return ", ".join([*shown, *more])
