"""Check what linters do not: names are unique and meaningful, private names stay private, folders are small.

`make check` runs it; it also prints how many lines of source each package has.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
READERS = ("tests", "tools", "bench", "examples", "evals", "packaging")
"""Folders beside the source whose programs import it. A name that they import is not private."""
MAX_MODULES = 30
"""`checks/inside` has the most: its programs are copied into a desk, where all are in one folder."""
MIRRORS = ("hotdesk/client/", "hotdesk/blocking.py")
"""The public client and the blocking API reuse the names they mirror."""
PARTICIPLES = {*"told said heard seen held kept left asked given wanted known taken made".split()}
"""Participles are no names: use the noun (`reply`, `grant`, `expected`)."""
BANNED = {*(word.title() for word in PARTICIPLES), "Line"}
PAST = {
    *"found begun sent built bound shown chosen written drawn proven broken thrown hidden forbidden forgotten".split()
}
VERBS = {*"feed seed reseed need embed exceed".split()}
"""Imperative verbs that end like a participle."""
FUNCTIONS = {
    ("hotdesk/checks/pages/layout.py", "clipped"),
    ("hotdesk/checks/pages/reading.py", "garbled"),
    ("hotdesk/hands/reader/view.py", "acted"),
    ("hotdesk/api/http/protocol.py", "_unsupported_upgrade_warning"),
    ("hotdesk/brief/load.py", "brief_of"),
    ("hotdesk/door/policy/scope.py", "scope_of"),
}
"""Function names that are data: rules of checks, a wire verb, a method that uvicorn calls, and two in the guide."""
CHOICES = ("one_of", "none_of")
EVENTS = "hotdesk/event/"
"""Names of events are data in journals, so they are not checked."""
KEEPER = "hotdesk/desk/keeper"
WALLS = {"local", "container", "gvisor", "microvm"}
"""The keeper asks a wall for what it can do (`Traits`), never for its name."""
WIRE = {
    ("hotdesk/api/e2b/control/snapshots.py", "made"),
    ("hotdesk/api/keys.py", "made"),
    ("hotdesk/api/native/access/keys.py", "made"),
    ("hotdesk/api/native/jobs/approvals.py", "asked"),
    ("hotdesk/api/native/jobs/templates.py", "Wanted"),
    ("hotdesk/api/native/jobs/views.py", "kept"),
    ("hotdesk/api/native/jobs/views.py", "left"),
    ("hotdesk/brain/models/codec.py", "seen"),
    ("hotdesk/brain/models/record.py", "kept"),
    ("hotdesk/checks/custom.py", "given"),
    ("hotdesk/checks/seam.py", "held"),
    ("hotdesk/checks/verdict_json.py", "held"),
    ("hotdesk/doctor/measure.py", "seen"),
    ("hotdesk/job/record/receipt.py", "kept"),
    ("hotdesk/job/record/receipt.py", "left"),
    ("hotdesk/job/record/summary.py", "kept"),
}
"""Names that are data: fields of stored JSON, of certificates and briefs, and of the published OpenAPI document."""
_PRIVATE_USE = re.compile(
    r"import [^\n]*\b_[a-z]|^    _\w+,$|\b(?!self\b|cls\b)\w+\._[a-z]", re.MULTILINE | re.IGNORECASE
)
BY_NAME = {
    "hotdesk/__init__.py": "the package's public names (PEP 562)",
    "hotdesk/brief/__init__.py": "the package's public names (PEP 562)",
    "hotdesk/event/__init__.py": "the package's public names (PEP 562)",
    "hotdesk/cli/__init__.py": "a command, by its name",
    "hotdesk/cli/command_tree.py": "a command, by its name",
    "hotdesk/checks/__init__.py": "a check, by its name in a brief",
    "hotdesk/checks/inside/active_look.py": "a file that is copied beside it into a desk",
    "hotdesk/checks/inside/resident.py": "files that are copied beside it into a desk",
    "hotdesk/hands/reader/process.py": "a part of a reader, by its name on the wire",
    "hotdesk/hands/screen/reader_client.py": "a part of a reader, by its name on the wire",
    "hotdesk/brain/models/names.py": "a driver, by its name in a model's",
    "hotdesk/brain/models/client.py": "a provider's SDK: an extra",
    "hotdesk/brain/vision.py": "a provider's SDK: an extra",
    "hotdesk/api/telemetry.py": "an exporter: an extra",
    "hotdesk/linux/jail.py": "what a confined process loads before it is confined",
}
"""Modules that import others by name, and why: import-linter does not see those imports. No other module may."""
COORDINATES = ("hotdesk/checks/", "hotdesk/hands/reader/", "hotdesk/hands/screen/")
"""Folders where `left` is a side."""


@cache
def parse(file: Path) -> ast.Module:
    """Parse a file once, without collecting garbage: Python 3.11 fails if a collector callback runs meanwhile."""
    gc.disable()
    try:
        return ast.parse(file.read_text())
    finally:
        gc.enable()


def classes(source: Path) -> dict[str, list[str]]:
    """List the modules that define each class."""
    found = defaultdict(list)
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        if not name.startswith(MIRRORS):
            for node in parse(file).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(name)
    return found


def wall_names(source: Path) -> list[tuple[str, str]]:
    """List the places where the keeper's code contains the name of a wall."""
    return [
        (str(file.relative_to(source)), node.value)
        for file in sorted((source / KEEPER).rglob("*.py"))
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in WALLS
    ]


def imports_by_text(source: Path) -> list[tuple[str, int]]:
    """List imports by name, except those of other projects' packages with a literal name."""
    found = []
    for file in sorted((source / "hotdesk").rglob("*.py")):
        name = str(file.relative_to(source))
        for node in ast.walk(parse(file)):
            match node:
                case ast.Call(func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module")):
                    is_foreign = isinstance(node.args[0], ast.Constant) and not str(node.args[0].value).startswith(
                        "hotdesk"
                    )
                    if not is_foreign and name not in BY_NAME:
                        found.append((name, node.lineno))
    return found


def participles(source: Path) -> list[tuple[str, int, str]]:
    """List variables, parameters, attributes and functions whose name is a participle."""
    found = []
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        for node in ast.walk(parse(file)):
            match node:
                case (
                    ast.Name(id=bound, ctx=ast.Store())
                    | ast.Attribute(attr=bound, ctx=ast.Store())
                    | ast.arg(arg=bound)
                ):
                    pass
                case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound):
                    pass
                case ast.MatchAs(name=str(bound)) | ast.MatchStar(name=str(bound)) | ast.ExceptHandler(name=str(bound)):
                    pass
                case _:
                    continue
            is_side = bound == "left" and name.startswith(COORDINATES)
            is_data = name.startswith(EVENTS) or (name, bound) in WIRE
            if bound.strip("_") in PARTICIPLES and not is_side and not is_data:
                found.append((name, node.lineno, bound))
    return found


def find_nouns(source: Path) -> list[tuple[str, int, str]]:
    """List functions named `x_of`, or with a leading participle; properties may have one, because they name a state."""
    found = []
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
                word = node.name.strip("_").partition("_")[0]
                is_participle = word in PAST or (word.endswith("ed") and word not in VERBS)
                is_noun = node.name.endswith("_of") and not node.name.endswith(CHOICES)
                if (is_participle or is_noun) and (name, node.name) not in FUNCTIONS:
                    found.append((name, node.lineno, node.name))
    return found


def find_private_uses(files: Iterable[Path], root: Path) -> list[str]:
    """List uses of a module's private names in other modules, tests included."""
    wrong = []
    for file in files:
        if not _PRIVATE_USE.search(file.read_text()):  # parsing every test takes seconds
            continue
        tree = parse(file)
        imports = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hotdesk")
        ]
        names = [alias for node in imports for alias in node.names]
        place = str(file.relative_to(root))
        wrong += [f"{place}: imports the private {each.name}" for each in names if _is_private(each.name)]
        bound = {each.asname or each.name for each in names}
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in bound and _is_private(name):
                    wrong.append(f"{place}:{node.lineno}: uses the private {owner}.{name}")
    return wrong


def find_unshared(source: Path, files: Iterable[Path], root: Path) -> list[str]:
    """List functions without an underscore that no other file mentions; decorated ones are registered somewhere."""
    mentions: Counter[str] = Counter()
    for file in files:
        mentions.update(set(re.findall(r"\w+", file.read_text())))
    return [
        f"{file.relative_to(root)}:{node.lineno}: {node.name} is used in this file only; begin it with an underscore"
        for file in sorted(source.rglob("*.py"))
        for node in parse(file).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not node.decorator_list
        and mentions[node.name] == 1
    ]


def find_sharing_faults(root: Path) -> list[str]:
    """List private names that other modules use, and public names that none uses."""
    source = root / SOURCE.name
    files = [file for folder in (source, *(root / each for each in READERS)) for file in sorted(folder.rglob("*.py"))]
    return find_private_uses(files, root) + find_unshared(source, files, root)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def complaints(source: Path) -> list[str]:
    """List every violation of a rule."""
    found = classes(source)
    wrong = [f"class {name} is defined in {', '.join(files)}" for name, files in found.items() if len(files) > 1]
    for name, files in found.items():
        if name in BANNED and not files[0].startswith(EVENTS) and (files[0], name) not in WIRE:
            wrong.append(f"{files[0]}: class {name}: use the domain's word")
    wrong += [f"{file}:{row}: {name} is no name; use the word for the thing" for file, row, name in participles(source)]
    wrong += [f"{file}:{row}: {name}: name a function by an imperative verb" for file, row, name in find_nouns(source)]
    wrong += [f"{file}: names the wall {name}; ask for a trait" for file, name in wall_names(source)]
    wrong += [f"{file}:{row}: imports by text; use an import statement" for file, row in imports_by_text(source)]
    modules = Counter(file.parent.relative_to(source) for file in source.rglob("*.py") if file.name != "__init__.py")
    wrong += [
        f"{folder} has {count} modules; at most {MAX_MODULES}"
        for folder, count in modules.items()
        if count > MAX_MODULES
    ]
    return wrong


def main() -> int:
    """Print the lines of each package, and all violations."""
    lines: Counter[str] = Counter()
    for file in SOURCE.rglob("*.py"):
        lines[".".join(file.relative_to(SOURCE).with_suffix("").parts[:2])] += len(file.read_text().splitlines())
    packages = {name: count for name, count in lines.items() if (SOURCE / name.replace(".", "/")).is_dir()}
    other = sum(lines.values()) - sum(packages.values())
    print(
        f"{sum(lines.values())} lines: " + ", ".join(f"{name} {count}" for name, count in sorted(packages.items())),
        f"other {other}",
        sep=", ",
    )
    for each in (wrong := complaints(SOURCE) + find_sharing_faults(ROOT)):
        print(each, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
