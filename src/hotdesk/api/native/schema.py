"""Schemas that several resources share: strict models, pages, ids, texts that may come from a desk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Model(BaseModel):
    """A request or response body; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Page(Model, Generic[T]):
    """A page of a list, and where the next page begins."""

    items: list[T]
    next: str | None = None
    """Pass it as `after` to get the next page; null: this is the last one."""


DeskName = Annotated[str, Path(pattern="^i[a-z0-9]{20}$", description="A desk's id.")]
JobName = Annotated[str, Path(pattern="^i[a-z0-9]{20}$", description="A job's id.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="The maximum number of items.")]
After = Annotated[str, Query(max_length=1100, description="The `next` value of the previous page.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,200}$",
        description="A repeated request with the same key returns the same response.",
    ),
]


def paginate(items: Sequence[T], name: Callable[[T], str], limit: int, after: str) -> tuple[list[T], str | None]:
    """Return the page after the item `after`, and the next page's `after`; an unknown `after` means the start."""
    names = [name(each) for each in items]
    begin = names.index(after) + 1 if after in names else 0
    some = list(items[begin : begin + limit])
    return some, names[begin + limit - 1] if begin + limit < len(items) else None


def clean(text: str) -> str:
    """Return a text that can be encoded as UTF-8; names in a desk may hold other bytes."""
    return text.encode("utf-8", "backslashreplace").decode()
