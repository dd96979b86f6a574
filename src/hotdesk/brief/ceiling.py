"""Operator limits that no brief may exceed, checked before anything starts. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from hotdesk.brief.brief import Approve, Brief
from hotdesk.config import APPROVALS, Ceiling
from hotdesk.errors import BriefError
from hotdesk.walls import NOMINAL_CATALOG, WallCatalog

FREE = Ceiling()
"""No limits."""


def admit_brief(job: Brief, ceiling: Ceiling, walls: WallCatalog = NOMINAL_CATALOG) -> Brief:
    """Return a job with the ceiling applied; raise `BriefError` with everything that exceeds it.

    `walls` has the strength of walls; `routing` checks whether they are available.
    """
    if outside := find_excess(job, ceiling, walls):
        raise BriefError(f"the brief asks for more than this machine's operator allows: {'; '.join(outside)}")
    return apply_ceiling(job, ceiling, walls)


def apply_ceiling(job: Brief, ceiling: Ceiling, walls: WallCatalog = NOMINAL_CATALOG) -> Brief:
    """Fill in the fields that the brief leaves open. Fields it does set are unchanged; `find_excess` checks those."""
    budget = job.budget
    job = replace(
        job,
        budget=replace(
            budget,
            tokens=ceiling.tokens if budget.tokens is None else budget.tokens,
            dollars=ceiling.dollars if budget.dollars is None else budget.dollars,
            acts=ceiling.acts if budget.acts is None else budget.acts,
        ),
    )
    if "seconds" not in job.explicit and ceiling.seconds is not None:
        job = replace(job, seconds=min(job.seconds, ceiling.seconds))
    if job.reduce is not None and ceiling.seconds is not None:
        job = replace(job, reduce=replace(job.reduce, seconds=min(job.reduce.seconds, ceiling.seconds)))
    if "approve" not in job.explicit and _rank_approval(job.approve) < _rank_approval(ceiling.approve):
        job = replace(job, approve=cast(Approve, ceiling.approve))
    if "wall" not in job.explicit and walls.is_weaker(job.wall, ceiling.wall):
        job = replace(job, wall=ceiling.wall)
    return job


def find_excess(job: Brief, ceiling: Ceiling, walls: WallCatalog = NOMINAL_CATALOG) -> tuple[str, ...]:
    if ceiling == FREE:
        return ()
    job = apply_ceiling(job, ceiling, walls)
    return (*_check_wall(job, ceiling, walls), *_check_names(job, ceiling), *_check_amounts(job, ceiling))


def _check_wall(job: Brief, ceiling: Ceiling, walls: WallCatalog) -> Iterator[str]:
    if walls.is_weaker(job.wall, ceiling.wall):
        yield (
            f"the wall {job.wall} is weaker than {ceiling.wall}, which the operator requires; write "
            f'wall = "{ceiling.wall}"'
        )
    if _rank_approval(job.approve) < _rank_approval(ceiling.approve):
        yield (
            f'approve = "{job.approve}" is less strict than "{ceiling.approve}", which the operator requires; write '
            f'approve = "{ceiling.approve}", or leave approve out'
        )
    if job.scope.names:
        yield (
            "only the operator may map host names to addresses; remove `names` from the brief, and ask the operator "
            "for an entry in `[door] names` of config.toml"
        )


def _check_names(job: Brief, ceiling: Ceiling) -> Iterator[str]:
    for secret in dict.fromkeys(grant.secret for grant in job.scope.grants):
        if not admits(secret, ceiling.grants):
            yield (
                f"the operator does not allow the secret {secret} ({_format_allowed(ceiling.grants)}); remove its "
                "grant, or ask the operator to add the secret to `[ceiling] grants`"
            )
    for model in dict.fromkeys((*job.models.plan, *job.models.act, *filter(None, [job.look]))):
        if not admits(model, ceiling.models):
            yield (
                f"the operator does not allow the model {model} ({_format_allowed(ceiling.models)}); name another "
                "model, or ask the operator to add it to `[ceiling] models`"
            )


def _check_amounts(job: Brief, ceiling: Ceiling) -> Iterator[str]:
    amounts = {"tokens": job.budget.tokens, "dollars": job.budget.dollars, "acts": job.budget.acts}
    for name, amount in {**amounts, "seconds": job.seconds}.items():
        most: float | None = getattr(ceiling, name)
        if most is not None and amount is not None and not 0 <= amount <= most:
            key = name if name == "seconds" else f"budget.{name}"
            yield (
                f"{key} = {amount:.15g} exceeds the operator's limit of {most:.15g}; write {key} = {most:.15g} or less"
            )


def admits(name: str, patterns: Iterable[str] | None) -> bool:
    """Return whether a name is allowed; `None` allows every name."""
    return patterns is None or any(matches(name, pattern) for pattern in patterns)


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern; `*` matches any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    if not name.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(name) - at >= len(rest[-1]) and name.endswith(rest[-1])


def _format_allowed(patterns: Iterable[str] | None) -> str:
    return f"allowed: {', '.join(patterns or ()) or 'none'}"


def _rank_approval(approve: str) -> int:
    """Return how strict an approval mode is; 0 is the least strict."""
    return APPROVALS.index(approve)
