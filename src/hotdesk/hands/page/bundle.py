"""Bundle many JavaScript modules into one, so that a browser sends one request. Other forms of code are refused.

Imports and exports are at the beginning of lines, in one of the forms below. A module becomes a function that is called
once, after the modules it imports; an export whose value changes is read again at each use.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError

NAME = r"[A-Za-z_$][\w$]*"
IMPORT = re.compile(
    rf"import\s+(?:\*\s+as\s+(?P<all>{NAME})|(?P<one>{NAME})|\{{(?P<some>[\w$\s,]*)\}})\s+from\s+"
    r"(?P<quote>[\"'])(?P<path>\.{1,2}/[\w./-]+)(?P=quote)\s*;?[ \t]*$",
    re.ASCII | re.MULTILINE,
)
EXPORT = re.compile(
    rf"export\s+(?:"
    rf"default\s+(?P<declared>(?:async\s+)?(?:class|function\*?)\s+(?P<main>{NAME}))"
    rf"|default\s+(?P<named>{NAME})\s*;"
    rf"|(?P<value>default)\s+(?=\{{|new\s)"
    rf"|(?P<kind>const|let|var|class|function\*?|async\s+function\*?)\s+(?P<own>{NAME})"
    rf"|\{{(?P<listed>[\w$\s,]*)\}}\s*;?)",
    re.ASCII,
)
_STATEMENT = re.compile(r"^(?=(?:import|export)\b)", re.ASCII | re.MULTILINE)
STRANGE = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[(.]", re.ASCII | re.MULTILINE)
"""An unknown form of import or export, or a statement that would change its meaning inside a function."""
WAITS = re.compile(r"^\S(?!.*\basync\b).*\bawait\b", re.ASCII | re.MULTILINE)
"""An `await` at the top level of a module: modules that import it have to wait."""
DEFAULT = "$default"


@dataclass(slots=True)
class Module:
    text: str = ""
    """Its code without imports and exports."""
    exports: dict[str, str] = field(default_factory=dict)
    """Names of exports, with their names inside the module."""
    imports: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, export and local name of each import; an empty export is the module's namespace."""


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """Bundle an entry module and everything it needs into one module, with the entry's default export."""
    modules: dict[str, Module] = {}
    add(entry, sources, modules, ())
    if "default" not in modules[entry].exports:
        raise _make_script_error(entry, "it has no default export")
    numbers = {name: number for number, name in enumerate(modules)}
    parts = [write(name, modules, numbers) for name in modules]
    return "".join([*parts, f"export default $m{numbers[entry]}.default;\n"])


def add(name: str, sources: Mapping[str, str], modules: dict[str, Module], within: tuple[str, ...]) -> None:
    if name in modules:
        return
    if name in within:
        raise _make_script_error(name, "it imports itself")
    if name not in sources:
        raise _make_script_error(name, f"{within[-1] if within else 'the page'} imports it, but it does not exist")
    module = _take_apart(name, sources[name])
    for path, _, _ in module.imports:
        add(path, sources, modules, (*within, name))
    modules[name] = module


def _take_apart(name: str, text: str) -> Module:
    """Parse the imports and exports of a module; raise `HostError` for an unsupported form."""
    first, *rest = _STATEMENT.split(text)
    module, parts = Module(), [first]
    for piece in rest:
        if found := IMPORT.match(piece):
            _note_import(module, name, found)
            parts.append(piece[found.end() :])
        elif found := EXPORT.match(piece):
            parts.append(_note_export(module, found) + piece[found.end() :])
        else:
            raise _make_script_error(name, f"the JavaScript `{piece.splitlines()[0][:80]}` is not supported by hotdesk")
    module.text = "".join(parts)
    if unparsed := STRANGE.search(module.text):
        raise _make_script_error(name, f"the JavaScript `{unparsed.group().strip()[:80]}` is not supported by hotdesk")
    return module


def _note_import(module: Module, name: str, found: re.Match[str]) -> None:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found["path"]))
    if found["some"] is not None:
        module.imports += [(path, each, each) for each in _parse_names(found["some"], name)]
    else:
        module.imports.append((path, "", found["all"]) if found["all"] else (path, "default", found["one"]))


def _note_export(module: Module, found: re.Match[str]) -> str:
    """Record the exports of a statement; return the rest of the statement."""
    if found["listed"] is not None:
        module.exports |= {each: each for each in _parse_names(found["listed"], "a module")}
        return ""
    if found["own"]:
        module.exports[found["own"]] = found["own"]
        return f"{found['kind']} {found['own']}"
    if found["value"]:
        module.exports["default"] = DEFAULT
        return f"const {DEFAULT} = "
    module.exports["default"] = found["main"] or found["named"]
    return found["declared"] or ""


def _parse_names(text: str, name: str) -> list[str]:
    names = [each.strip() for each in text.split(",") if each.strip()]
    for each in names:
        if not re.fullmatch(NAME, each, re.ASCII):
            raise _make_script_error(name, f"the JavaScript `{each[:80]}` is not supported by hotdesk")
    return names


def write(name: str, modules: Mapping[str, Module], numbers: Mapping[str, int]) -> str:
    module = modules[name]
    text, lines = module.text, []
    for path, what, here in module.imports:
        source = f"$m{numbers[path]}"
        if what and what not in modules[path].exports:
            raise _make_script_error(name, f"{path} does not export {what}")
        if what and _is_changing(modules[path], what):
            text = follow(text, here, f"{source}.{what}", name)
        else:
            lines.append(f"const {here} = {source}{'.' if what else ''}{what};\n")
    getters = ", ".join(f"get {what}() {{ return {inside}; }}" for what, inside in module.exports.items())
    begin, end = ("await (async () => {", "})()") if WAITS.search(module.text) else ("(() => {", "})()")
    body = f"{''.join(lines)}{text}\nreturn {{ {getters} }};\n"
    return f"// {name}\nconst $m{numbers[name]} = {begin}\n{body}{end};\n"


def _is_changing(module: Module, what: str) -> bool:
    inside = re.escape(module.exports[what])
    return len(re.findall(rf"(?<![\w$.]){inside}\s*(?:[^\s\w$=!<>]?=(?!=)|\+\+|--)", module.text, re.ASCII)) > 1


def follow(text: str, name: str, source: str, module: str) -> str:
    """Replace a name by a property of its module at each use, because its value changes."""
    word = rf"(?<![\w$.]){re.escape(name)}(?![\w$])"
    if re.search(rf"(?:let|const|var|function|class)\s+{word}|{word}\s*(?::|=(?!=)|\([^()]*\)\s*{{)", text, re.ASCII):
        raise _make_script_error(module, f"it imports `{name}` and also defines it")
    return re.sub(word, lambda _: source, text, flags=re.ASCII)


def _make_script_error(name: str, why: str) -> HostError:
    return HostError(f"noVNC's script {name} cannot be used to show a desk's screen: {why}")
