"""The reference solution's program at its desk: follow each action through the minutes, and write the register."""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import docx  # type: ignore[import-not-found]
import openpyxl  # type: ignore[import-untyped]

COLUMNS = ("Number", "Action", "Owner", "Due", "Status", "Raised")


def main() -> None:
    """Write Actions.xlsx."""
    actions: dict[str, dict[str, Any]] = {}
    for path in sorted(Path("minutes").glob("*.docx")):
        follow(docx.Document(str(path)), actions)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Actions"
    sheet.append(COLUMNS)
    for number in sorted(actions):
        sheet.append([number, *(actions[number][name] for name in COLUMNS[1:])])
    book.save("Actions.xlsx")


def follow(book: Any, actions: dict[str, dict[str, Any]]) -> None:
    """Apply the minutes of one meeting."""
    texts = [paragraph.text for paragraph in book.paragraphs]
    day = read_date(texts[1].removeprefix("Minutes of the meeting of "))
    people = {row.cells[1].text: row.cells[0].text for row in book.tables[0].rows[1:]}
    for text in texts:
        review(text, people, actions)
    rows = [tuple(cell.text for cell in row.cells) for table in book.tables[1:] for row in table.rows[1:]]
    agreed = [re.search(r"It was agreed that (\w+) will (.+?) ((?:by|in) .+) \((A-\d+)\)\.", text) for text in texts]
    rows += [(match[4], match[2], match[1], match[3]) for match in agreed if match]
    for number, task, mark, due in rows:
        new = dict(zip(COLUMNS, (number, task, people[mark], read_due(due, day), "open", day), strict=True))
        actions.setdefault(number, new)


def review(text: str, people: dict[str, str], actions: dict[str, dict[str, Any]]) -> None:
    """Apply one sentence about an earlier action."""
    if match := re.match(r"(.+) has left\. All her open actions pass to (.+) \(", text):
        for action in actions.values():
            if action["Owner"] == match[1] and action["Status"] == "open":
                action["Owner"] = match[2]
    elif match := re.match(r"(A-\d+) is done\.", text):
        actions[match[1]]["Status"] = "done"
    elif match := re.match(r"(A-\d+) is struck off", text):
        actions[match[1]]["Status"] = "cancelled"
    elif match := re.match(r"(A-\d+): the due date moves to (.+)\.", text):
        actions[match[1]]["Due"] = read_date(match[2])
    elif match := re.match(r"(A-\d+) passes from \w+ to (\w+)\.", text):
        actions[match[1]]["Owner"] = people[match[2]]


def read_due(text: str, day: date) -> date:
    """Read a due date, counted from the day of the meeting where it is relative."""
    if text == "by Friday":
        return day + timedelta(days=(4 - day.weekday()) % 7 or 7)
    if text == "by the end of the month":
        return day.replace(day=calendar.monthrange(day.year, day.month)[1])
    if text == "in two weeks":
        return day + timedelta(days=14)
    return read_date(text.removeprefix("by "))


def read_date(text: str) -> date:
    """Read a date in words."""
    return datetime.strptime(text, "%d %B %Y").date()


if __name__ == "__main__":
    main()
