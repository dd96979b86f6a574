"""Build the documentation as a static site: `make docs`. A broken link or anchor makes it fail.

The site has the repository's layout, so the same relative links work on both. The navigation is `docs/README.md`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SITE = ROOT / "out" / "docs"
TOP = ("README.md", "SECURITY.md", "SPECIFICATION.md", "CHANGELOG.md")
FOLDERS = ("docs", "examples")
ASSETS = frozenset((".svg", ".png", ".ipynb"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)\)", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
SLUGIFY = '!!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}'
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def pages(root: Path = ROOT) -> list[Path]:
    """List every page, relative to the repository."""
    found = [root / name for name in TOP]
    found += [path for folder in FOLDERS for path in (root / folder).rglob("*.md")]
    return sorted(path.relative_to(root) for path in found)


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub makes it and as the site is configured to."""
    text = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(FENCE.sub("", text))}


def broken_links(root: Path = ROOT) -> Iterator[str]:
    """Yield a complaint for every relative link without a file or a heading."""
    for page in pages(root):
        text = (root / page).read_text()
        for target in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (root / page.parent / name).resolve() if name else root / page
            if not path.is_file():
                yield f"{page}: {target} is no file"
            elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
                yield f"{page}: {target}: no such heading"


def stage(folder: Path) -> None:
    """Copy pages, with their pictures and notebooks, in the repository's layout."""
    assets = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in ASSETS]
    for path in [*(ROOT / page for page in pages()), *assets]:
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def navigation() -> list[dict[str, Any]]:
    """Read the navigation from the index of the documentation: its sections and their links."""
    index = Path("docs/README.md")
    sections = re.split(r"^## ", (ROOT / index).read_text(), flags=re.MULTILINE)[1:]
    result: list[dict[str, Any]] = [{"hotdesk": "README.md"}]
    for section in sections:
        title, _, body = section.partition("\n")
        entries = [
            {name: (ROOT / index.parent / target).resolve().relative_to(ROOT).as_posix()}
            for name, target in ENTRY.findall(body)
            if target.endswith(".md")
        ]
        result.append({title.strip(): entries})
    return result


def configuration(source: Path) -> dict[str, Any]:
    """Return the configuration of MkDocs."""
    return {
        "site_name": "hotdesk",
        "docs_dir": str(source),
        "site_dir": str(SITE),
        "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "content.code.copy"]},
        "plugins": ["search"],
        "nav": navigation(),
        "markdown_extensions": [
            "tables",
            "pymdownx.superfences",
            {"toc": {"permalink": True, "slugify": "SLUGIFY"}},
        ],
        "validation": {
            "nav": {"omitted_files": "info", "not_found": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
        },
    }


def main() -> int:
    """Check the links, then build the site; return an exit code."""
    if broken := list(broken_links()):
        print("\n".join(broken), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        source, config = Path(folder) / "pages", Path(folder) / "mkdocs.yml"
        stage(source)
        text = json.dumps(configuration(source))  # JSON is valid YAML
        config.write_text(text.replace('"SLUGIFY"', SLUGIFY))
        argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)]
        env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        code = subprocess.run(argv, check=False, env=env).returncode
    if code == 0:
        print(f"{len(pages())} pages in {SITE.relative_to(ROOT)}; open {SITE.relative_to(ROOT)}/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
