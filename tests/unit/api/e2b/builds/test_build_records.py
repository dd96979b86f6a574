"""Tests of a tenant's build records, and of reading them again after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.api.e2b.builds.records import (
    FILE,
    BuildContext,
    TemplateRecord,
    TenantTemplates,
    new_build,
)
from hotdesk.api.e2b.responses import E2bError
from hotdesk.errors import HostError


def tenant(folder: Path) -> Any:
    return SimpleNamespace(name="acme", settings=SimpleNamespace(lib=folder))


def ready(store: TenantTemplates, name: str, *tags: str, image: str = "snapshot-a") -> tuple[TemplateRecord, str]:
    """Record a build that is ready; return its template and id."""
    build = new_build(list(tags) or ["default"], 1, 1 << 30)
    found = store.begin(name, build)
    store.change(
        found.id, replace(build, status="ready", image=image, context=BuildContext("root", "/app", {"A": "b"}))
    )
    return store.templates[found.id], build.id


async def test_all_records_are_there_after_a_restart(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    template, number = ready(store, "mine", "v1")
    layer = store.expect("key")
    store.add(replace(layer, size=7))
    store.use("key", proven=True)
    await store.write()
    again = TenantTemplates(tenant(tmp_path))
    assert again.templates == {template.id: template}
    assert again.layers["key"].image == layer.image
    assert again.layers["key"].proven
    found = again.find_build("mine:v1")
    assert found is not None
    assert found.id == number
    assert found.context == BuildContext("root", "/app", {"A": "b"})
    assert again.find_build(f"{template.id}:v1") == found


async def test_an_interrupted_build_counts_as_failed_and_its_image_is_removed(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    build = new_build(["default"], None, None)
    template = store.begin("mine", build)
    store.change(template.id, replace(build, status="building"))
    layer = store.expect("key")
    await store.write()
    again = TenantTemplates(tenant(tmp_path))
    found = again.templates[template.id].build(build.id)
    assert found is not None
    assert found.status == "error"
    assert "restarted" in found.message
    assert again.unfinished == {layer.image: 0.0}
    assert not again.layers


def test_a_tag_means_the_last_build_that_got_it(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    ready(store, "mine", "v1", image="snapshot-a")
    ready(store, "mine", "v1", "v2", image="snapshot-b")
    found = store.find_build("mine:v1")
    assert found is not None
    assert found.image == "snapshot-b"
    assert store.find_build("mine") is None  # no build has the default tag
    assert store.find_build("other/mine:v1") is None
    template = store.find("acme/mine:v2")[0]
    store.unassign(template, ["v2"])
    assert store.find_build("mine:v2") is None


def test_a_build_that_failed_gets_no_tag(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    build = new_build(["default"], None, None)
    template = store.begin("mine", build)
    store.change(template.id, replace(build, status="error"))
    assert store.find_build("mine") is None
    assert not store.templates[template.id].tags


def test_missing_things_are_not_found(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    with pytest.raises(E2bError, match="not found"):
        store.find("mine")


def test_old_builds_are_forgotten_but_those_with_a_tag(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    _, first = ready(store, "mine", "first")
    for _ in range(60):
        template, _ = ready(store, "mine", "last")
    assert template.build(first) is not None
    assert len(template.builds) < 25


def test_a_layer_that_is_made_again_frees_the_old_image(tmp_path: Path) -> None:
    store = TenantTemplates(tenant(tmp_path))
    one, two = store.expect("key"), store.expect("key")
    store.add(one)
    store.add(two)
    assert store.layers["key"].image == two.image
    assert list(store.unfinished) == [one.image]


def test_a_damaged_file_is_reported_by_name(tmp_path: Path) -> None:
    (tmp_path / "serve").mkdir(mode=0o700)
    (tmp_path / "serve" / FILE).write_text('{"templates": [{"id": 1}]}')
    (tmp_path / "serve" / FILE).chmod(0o600)
    with pytest.raises(HostError, match="is damaged"):
        TenantTemplates(tenant(tmp_path))
