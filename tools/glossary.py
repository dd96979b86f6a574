"""Find words in messages and documentation that docs/glossary.md replaces.

`make check` runs it. The second table of the glossary lists each word with its replacement. Messages are the string
literals of `src` that are not docstrings, prompts, and the texts of the page; documentation is every Markdown file of
`docs`, those at the top and those of the examples. Code in Markdown is not checked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "SECURITY.md", "SPECIFICATION.md")
_ROW = re.compile(r"\| `([a-z ]+)` \| ([^|]+) \|")
_MARKDOWN_CODE = re.compile(r"```.*?```|`[^`\n]*`|^ {4}[^\n]*$", re.DOTALL | re.MULTILINE)
_DOCSTRING = re.compile(r'"""(?!,).*?"""', re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCRIPT_COMMENT = re.compile(r"(?m)^\s*//.*|\s//\s.*")


def read_glossary(text: str) -> dict[str, str]:
    """Read the replaced words, each with its replacement."""
    return {word: instead.strip() for word, instead in _ROW.findall(text.partition("## Replaced words")[2])}


def complaints(root: Path) -> list[str]:
    """List every use of a replaced word."""
    instead = read_glossary((root / "docs/glossary.md").read_text())
    spellings = "|".join(f"[{word[0]}{word[0].upper()}]{re.escape(word[1:])}" for word in instead)
    words = re.compile(rf"(?<![\w-])(?:{spellings})(?![\w-])")
    return [
        f'{file.relative_to(root)}:{text.count(chr(10), 0, found.start()) + 1}: "{found[0]}": '
        f"write {instead[found[0].lower()]}"
        for file, text in _list_texts(root)
        for found in words.finditer(text)
    ]


def _list_texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield files with the part of their text that people or models read; the rest is blanked out."""
    readers: dict[str, Callable[[str], str]] = {
        ".py": lambda text: _keep(_LITERAL, _blank(_DOCSTRING, text)),
        ".js": lambda text: _blank(_SCRIPT_COMMENT, text),
        ".html": str,
        ".md": str,
    }
    for file in sorted((root / "src").rglob("*.*")):
        if file.suffix in readers:
            yield file, readers[file.suffix](file.read_text())
    examples = sorted((root / "examples").glob("*/README.md"))
    for file in (*sorted((root / "docs").rglob("*.md")), *(root / name for name in DOCUMENTS), *examples):
        if file.exists() and file.name != "glossary.md":
            yield file, _blank(_MARKDOWN_CODE, file.read_text())


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _keep(pattern: re.Pattern[str], text: str) -> str:
    lines = text.split("\n")
    return "\n".join(" ".join(pattern.findall(line)) if '"' in line else "" for line in lines)


if __name__ == "__main__":
    wrong = complaints(ROOT)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    sys.exit(bool(wrong))
