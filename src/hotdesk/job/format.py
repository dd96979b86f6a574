"""Formats sizes, durations, token counts and costs for people."""

from __future__ import annotations

from collections.abc import Sequence

from hotdesk.job.record.progress import Cost


def format_size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    power = next(power for power in (1, 2, 3, 4) if count < 1000 * 1024**power or power == 4)
    return f"{count / 1024**power:.1f} {'KMGT'[power - 1]}iB"


def format_duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else format_clock(seconds)


def format_clock(seconds: float) -> str:
    whole = int(max(seconds, 0))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def format_tokens(count: int) -> str:
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1000:,.0f}k" if count < 1_000_000 else f"{count / 1_000_000:,.1f}M"


def format_cost(costs: Sequence[Cost]) -> str:
    dollars, unpriced = sum(each.dollars for each in costs), sum(each.unpriced for each in costs)
    replies = sum(each.replies for each in costs)
    if replies and unpriced == replies:
        return "unknown price"
    amount = f"~${dollars:.2f}" if dollars >= 10 else f"~${dollars:.4f}"
    return f"{amount} (and {format_count(unpriced, 'reply')} of unknown price)" if unpriced else amount


def format_count(count: int, word: str) -> str:
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {word if count == 1 else many}"
