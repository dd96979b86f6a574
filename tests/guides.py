"""Parse the guides for tests: their code blocks, and the command lines in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_THE_SERVER = ("agents", "api", "e2b", "e2b-templates", "mcp", "server")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|(?<=\n\n)((?: {4}[^\n]*\n(?:\n(?= {4}))*)+)", re.MULTILINE | re.DOTALL)
"""A fenced block with its language, or an indented block without one."""
PYTHON = re.compile(r"(from|with|import) |\w+ = ")
"""How an indented block of Python begins."""


def blocks(name: str) -> list[tuple[str, str]]:
    """List the blocks of a guide, each with its language: `sh`, `python`, `json` or `toml`."""
    text = (ROOT / "docs/guide" / f"{name}.md").read_text()
    found = []
    for form, fenced, indented in BLOCK.findall(text):
        code = fenced or re.sub("^    ", "", indented, flags=re.MULTILINE)
        found.append((form or ("python" if PYTHON.match(code) else "sh"), code))
    return found


def typed(name: str) -> list[str]:
    text = "\n".join(code for form, code in blocks(name) if form == "sh").replace("\\\n", " ")
    return [line.removeprefix("$ ").strip() for line in text.splitlines() if line.strip()]
