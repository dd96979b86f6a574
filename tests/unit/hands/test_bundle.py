"""Tests of bundling JavaScript modules into one: what is supported, the order of execution, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hotdesk.errors import HostError
from hotdesk.hands.page import load_library
from hotdesk.hands.page.bundle import bundle

ENTRY = "core/a.js"


def one(text: str, **others: str) -> str:
    return bundle({ENTRY: text, **{f"core/{name}.js": source for name, source in others.items()}}, ENTRY)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("export default class A {\n}", "class A {\n}\nreturn { get default() { return A; } };"),
        ("export default function a() {\n}", "function a() {\n}\nreturn { get default() { return a; } };"),
        ("const a = 1;\nexport default a;", "const a = 1;\n\nreturn { get default() { return a; } };"),
        (
            "export default {\n  b: 1,\n};",
            "const $default = {\n  b: 1,\n};\nreturn { get default() { return $default; } };",
        ),
        ("let b = 1;\nexport { b };\nexport default b;", "get b() { return b; }, get default() { return b; }"),
        ("export const b = 1;\nexport default b;", "const b = 1;"),
        ("export async function b() {}\nexport default b;", "async function b() {}"),
        ('import B from "./b.js";\nexport default B;', "const B = $m0.default;"),
        ("import * as B from './b.js'\nexport default B;", "const B = $m0;"),
        ('import { c,\n  d } from "./b.js";\nexport default c;', "const c = $m0.c;\nconst d = $m0.d;"),
    ],
)
def test_plain_imports_and_exports_are_understood(text: str, written: str) -> None:
    made = one(text, b="const e = 5;\nexport default e;\nexport const c = 1;\nexport function d() {}")
    assert written in made
    assert made.count("export") == 1
    assert re.search(r"export default \$m\d+\.default;\n$", made)
    assert not re.search(r"^import\b", made, re.MULTILINE)


def test_a_module_runs_once_and_after_those_it_needs() -> None:
    made = one(
        'import { x } from "./b.js";\nimport { y } from "./d.js";\nexport default x;',
        b='import { y } from "./c.js";\nexport const x = y;',
        c='import { z } from "./d.js";\nexport const y = z;',
        d="export const y = 1;\nexport const z = 2;",
    )
    assert re.findall(r"^// (.*)$", made, re.MULTILINE) == ["core/d.js", "core/c.js", "core/b.js", "core/a.js"]


def test_unused_modules_are_omitted() -> None:
    assert "unused" not in one("export default class A {}", b="const unused = 1;")


def test_a_value_that_changes_is_read_where_it_comes_from() -> None:
    source = "export let touch = false;\nexport let fixed = 1;\nfunction set() { touch = true; }"
    text = 'import { touch, fixed } from "./b.js";\nconst f = () => touch && it.touch || fixed;\nexport default f;'
    made = one(text, b=source)
    assert "() => $m0.touch && it.touch || fixed;" in made
    assert "const fixed = $m0.fixed;" in made
    assert "const touch" not in made


def test_a_module_that_waits_has_those_that_need_it_wait() -> None:
    text = one("import { c } from './b.js';\nexport default c;", b="export const c = await 5;")
    assert "const $m0 = await (async () => {\n" in text
    assert "const $m1 = (() => {\n" in text


def test_a_thing_that_is_made_is_exported() -> None:
    assert "const $default = new A;" in one("class A {}\nexport default new A;")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("export * from './b.js';\nexport default class A {}", r"`export \* from './b\.js';` is not supported"),
        ("import './b.js';\nexport default class A {}", "`import './b.js';` is not supported"),
        ("import { c as d } from './b.js';\nexport default d;", "is not supported"),
        ("import b from 'https://elsewhere.test/b.js';\nexport default b;", "is not supported"),
        ("import b from './b.js'; import c from './c.js';\nexport default b;", "is not supported"),
        ("export default 5;", "is not supported"),
        ("  import b from './b.js';\nexport default b;", "`import` is not supported"),
        ("const b = import('./b.js');\nexport default b;", r"`import\(` is not supported"),
        ("const b = import.meta.url;\nexport default b;", r"`import\.` is not supported"),
        ("import b from './gone.js';\nexport default b;", "gone.js.*core/a.js imports it, but it does not exist"),
        ("import b from './a.js';\nexport default b;", "core/a.js.*it imports itself"),
        ("import { nothing } from './b.js';\nexport default nothing;", "core/b.js does not export nothing"),
        (
            "import { t } from './b.js';\nclass A { t() {} }\nexport default A;",
            "it imports `t` and also defines it",
        ),
        ("const a = 1;", "it has no default export"),
    ],
)
def test_unsupported_syntax_is_refused(text: str, why: str) -> None:
    with pytest.raises(HostError, match=why):
        one(text, b="export const c = 1;\nexport let t = 1;\nt = 2;", c="export const c = 1;")


def test_a_library_that_cannot_be_bundled_is_reported_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/rfb.js").write_text("const a = 1;")
    with pytest.raises(HostError, match=f"it has no default export; delete the folder {tmp_path}, then"):
        load_library(tmp_path)
