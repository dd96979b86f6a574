"""Attacks by texts that viewers turn into pages: Markdown, reStructuredText, notebooks and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotdesk.checks.inside.active_look import look
from tests.security.guards import Removal, falls_without

SCRIPT = "<script>alert(1)</script>"
BEACON = "<img src=https://evil.test/x onerror=alert(1)>"
FILE = "inside/active_prose.py"


def notebook(cell: str, source: str | list[str], **data: object) -> str:
    outputs = [{"output_type": "display_data", "metadata": {}, "data": data}] if data else []
    cells = [{"cell_type": cell, "metadata": {}, "source": source, "outputs": outputs}]
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4})


LINKS: dict[str, str] = {
    "a link that runs": "[x](javascript:alert(1))",
    "a link that runs, behind a backslash": r"[x](javascript\:alert(1))",
    "a link that runs, in entities": "[x](&#106;avascript:alert(1))",
    "a link to a program": "[x](file:///C:/Windows/calc.exe)",
    "a link to a share": r"[x](\\evil.test\share\x.exe)",
    "a link in brackets": "[x](<file:///c:/x y>)",
    "a link on the next line": "> [x](\n> file:///x)",
    "a link by its name": "[x]\n\n[x]: file:///c:/x",
    "a long link by its name": f"[x]\n\n[x]: file:///{'x' * 500} 'title'",
    "an address as text": "Open <search-ms:query=x>, please.",
}
PICTURES: dict[str, str] = {
    "a picture that counts its readers": "# Report\n\n![](https://evil.test/p.png?u=1)",
    "a picture in entities": "![x](https&colon;//evil.test/p.png)",
}
SHARED: dict[str, str] = {"a picture from a share": r"![](\\evil.test\share\x.png)"}
NAMED: dict[str, str] = {
    "a picture by its name": "![x][logo]\n\n[logo]: https://evil.test/p.png",
    "a picture by its own name": "![logo]\n\n[logo]: <https://evil.test/p.png>",
    "a picture with brackets in its words": "![table [1]](https://evil.test/p.png)",
}
TAGS: dict[str, str] = {
    "a picture in a tag": f"# Report\n\n{BEACON}",
    "a script": f"# Report\n\n{SCRIPT}",
    "a script far below": "a line\n" * 500 + SCRIPT,
}
HIDDEN: dict[str, str] = {
    "a block that ends in a comment": f"<!--\n\n```\n-->\n{SCRIPT}\n```",
    "a block that is HTML": f"```{{=html}}\n{SCRIPT}\n```",
    "a block inside a tag": f"<details>\n```\n{SCRIPT}\n```\n</details>",
    "a block inside a header": f"---\na: |\n\n```\n---\n{SCRIPT}\n```",
    "a block inside a formula": f"$$\n```\n$$\n{SCRIPT}\n```",
    "a block that is drawn": f"```mermaid\n{BEACON}\n```",
    "a block with another inside": f"```\n    ```\n{SCRIPT}\n```",
    "a mark of code in a tag": f'<b title="`"> {BEACON} `',
    "a mark of code behind a backslash": f"\\` {BEACON} `",
    "a mark of code from the line before": f"`a\n` {BEACON} `b`",
    "code that a table ends": f"| a | b |\n|---|---|\n| `a | {BEACON} ` |",
    "code that is HTML": f"`{SCRIPT}`{{=html}}",
    "code inside a formula": f"$`$ {BEACON} $`$",
}
NOTEBOOKS: dict[str, str] = {
    "a script in a notebook": notebook("markdown", ["a" * 1600, "<scr", "ipt>x</script>"]),
    "a notebook's page": notebook("code", "1", **{"text/html": [BEACON]}),
    "a notebook's link": notebook("markdown", "[x](file:///c:/x)"),
}
ENCODED: dict[str, str] = {
    "a.mht": "MIME-Version: 1.0\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\nPHNjcmlwdD4=",
    "a.mhtml": "Content-Type: text/html\r\nContent-Transfer-Encoding:\r\n quoted-printable\r\n\r\n=3Cscript>",
    "a.eml": "Content-Type: text/html\ncontent-transfer-encoding: (7bit) BASE64\n\nPHNjcmlwdD4=",
}

LINKS_PASS = Removal(
    FILE, "        if leads_elsewhere(each) and not leads_to_page(each) and not carried:\n", "        if not each:\n"
)
PICTURES_PASS = Removal(
    FILE, "        if leads_elsewhere(each) and not CARRIED.match(strip_controls(each)):\n", "        if not each:\n"
)


def find(folder: Path, name: str, text: str) -> set[str]:
    (folder / name).write_text(text, newline="")
    told = look(str(folder / name))
    return {each[0] for each in told["found"]}  # type: ignore[attr-defined]


@falls_without("prose: links lead to pages", LINKS_PASS, cases=LINKS)
@falls_without("prose: pictures are in the file", PICTURES_PASS, cases=[*PICTURES, *NAMED])
@falls_without("prose: pictures and links are judged", PICTURES_PASS, LINKS_PASS, cases=SHARED)
@falls_without(
    "prose: a target may be a picture's",
    Removal(FILE, '    unclear = text.count("![") > len(PICTURE.findall(text))\n', "    unclear = False\n"),
    cases=NAMED,
)
@falls_without(
    "prose: tags are read",
    Removal(FILE, "    if _has_html(text):\n", "    if not text:\n"),
    cases=TAGS,
)
@falls_without(
    "prose: code is what every viewer shows as code",
    Removal(FILE, "    return text if unclear else shown\n", "    return shown\n"),
    Removal(FILE, "\\1(?![`{])", "\\1(?!`)"),
    Removal(FILE, "[^`|]+", "[^`]+"),
    Removal(FILE, " and start[2].lower() not in DRAWN", ""),
    Removal(
        FILE,
        "                if bare != fence:\n                    return text\n",
        "                if bare != fence:\n                    continue\n",
    ),
    Removal(FILE, 'line if "$" in line else SPAN', "SPAN"),
    Removal(FILE, r'[ \t]*([\w+#.-]*)[ \t]*")', r'[ \t]*([\w+#.{=}-]*)[ \t]*")'),
    cases=HIDDEN,
)
@pytest.mark.parametrize("what", LINKS | PICTURES | SHARED | NAMED | TAGS | HIDDEN)
def test_a_report_that_acts_is_found(tmp_path: Path, what: str) -> None:
    text = (LINKS | PICTURES | SHARED | NAMED | TAGS | HIDDEN)[what]
    assert find(tmp_path, "report.md", text) & {"scripts", "external-references"}
    assert find(tmp_path, "report.markdown", text) & {"scripts", "external-references"}


@falls_without(
    "prose: reStructuredText is read",
    Removal(FILE, "        _inspect_directives(text, found, where)\n        yield text\n", "        pass\n"),
)
@pytest.mark.parametrize(
    "text",
    [
        ".. image:: https://evil.test/x.png",
        ".. |a| image:: //evil.test/x.png",
        ".. raw:: html\n\n   " + SCRIPT,
        "`x <file:///c:/x>`_",
        ".. _x: file:///c:/x",
    ],
)
def test_restructured_text_that_acts_is_found(tmp_path: Path, text: str) -> None:
    assert find(tmp_path, "a.rst", text) & {"scripts", "external-references"}


@falls_without(
    "prose: a notebook's texts are read",
    Removal(
        FILE, '        if cell != "code" and not is_stream and key not in PLAIN | SAID:\n', "        if not key:\n"
    ),
)
@pytest.mark.parametrize("what", NOTEBOOKS)
def test_a_notebook_that_acts_is_found(tmp_path: Path, what: str) -> None:
    assert find(tmp_path, "a.ipynb", NOTEBOOKS[what]) & {"scripts", "external-references"}


@falls_without(
    "prose: only Markdown has code",
    Removal(FILE, "_strip_code(each) if is_markdown else each", "_strip_code(each)"),
)
def test_no_code_is_left_out_of_a_notebooks_html(tmp_path: Path) -> None:
    data = notebook("code", "1", **{"text/html": f"```\n{SCRIPT}\n```"})
    assert "scripts" in find(tmp_path, "a.ipynb", data)


@falls_without(
    "prose: a notebook's outputs are shown, not run",
    Removal(FILE, "        if TYPE.fullmatch(key) and key not in SHOWN | PLAIN:\n", "        if not key:\n"),
)
@pytest.mark.parametrize("kind", ["application/javascript", "application/vnd.vega.v5+json"])
def test_a_notebooks_output_that_runs_is_found(tmp_path: Path, kind: str) -> None:
    assert "scripts" in find(tmp_path, "a.ipynb", notebook("code", "1", **{kind: "alert(1)"}))


@falls_without(
    "prose: a message's parts are written as they are read",
    Removal(FILE, "    for match in ENCODING.finditer(text):\n", "    for match in ENCODING.finditer(text[:0]):\n"),
)
@pytest.mark.parametrize("name", ENCODED)
def test_a_message_with_an_encoded_part_is_not_readable(tmp_path: Path, name: str) -> None:
    assert "unreadable" in find(tmp_path, name, ENCODED[name])


@falls_without(
    "prose: a message's letters are usual",
    Removal(FILE, "    for match in LETTERS.finditer(text):\n", "    for match in LETTERS.finditer(text[:0]):\n"),
)
def test_a_message_in_rare_letters_is_not_readable(tmp_path: Path) -> None:
    text = "Content-Type: text/html; charset=utf-7\n\n+ADw-script+AD4-"
    assert "unreadable" in find(tmp_path, "a.eml", text)


@falls_without(
    "prose: a message carries no program",
    Removal(FILE, "        if not active_kinds.is_inert_name(match[1].strip()):\n", "        if not match:\n"),
)
def test_a_program_attached_to_a_message_is_found(tmp_path: Path) -> None:
    text = 'Content-Type: text/plain\nContent-Disposition: attachment;\n filename="a.bat"\n\ncalc\n'
    assert "programs" in find(tmp_path, "a.eml", text)


@falls_without(
    "prose: by their names",
    Removal(
        "inside/active_text.py",
        "    if suffix in active_prose.PROSE or suffix in active_prose.MESSAGES:\n",
        "    if not suffix and active_prose.PROSE:\n",
    ),
)
@pytest.mark.parametrize("suffix", ["md", "markdown", "mkd", "ipynb"])
def test_each_name_of_such_a_text_is_inspected(tmp_path: Path, suffix: str) -> None:
    text = "![](https://evil.test/p.png)"
    assert "external-references" in find(tmp_path, f"a.{suffix}", json.dumps([text]) if suffix == "ipynb" else text)
