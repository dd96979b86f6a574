"""Tests of the glossary checker: replaced words are found in text for people and models, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from tools.glossary import ROOT, complaints, read_glossary

GLOSSARY = '## Replaced words\n\n| not | but |\n|---|---|\n| `anew` | "again" |\n| `hung up` | "disconnected" |\n'


def test_messages_and_documentation_use_the_words_of_the_glossary() -> None:
    assert complaints(ROOT) == []


def test_the_glossary_lists_words_with_replacements() -> None:
    assert read_glossary(GLOSSARY) == {"anew": '"again"', "hung up": '"disconnected"'}


def test_a_replaced_word_is_found_in_messages_pages_and_documents_only(tmp_path: Path) -> None:
    files = {
        "docs/glossary.md": GLOSSARY,
        "docs/guide.md": "Start it anew.\n\n    anew in code\n\nCall `anew` now.\n",
        "README.md": "The peer hung up.\n",
        "examples/order/README.md": "Try it anew.\n",
        "src/part.py": '"""Made anew."""\n\nanew = 1  # anew\nTEXT = f"start {part} anew"\nKEY = "signed-anew"\n',
        "src/page.js": '// anew\nsay("Hung up");\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert complaints(tmp_path) == [
        'src/page.js:2: "Hung up": write "disconnected"',
        'src/part.py:4: "anew": write "again"',
        'docs/guide.md:1: "anew": write "again"',
        'README.md:1: "hung up": write "disconnected"',
        'examples/order/README.md:1: "anew": write "again"',
    ]
