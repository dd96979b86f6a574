"""Tests of the layers of a build and their cache keys."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hotdesk.api.e2b.builds.orders import BuildOrder
from hotdesk.api.e2b.builds.plan import BuildPlan, hash_key, join_path, merge_tail, plan_build
from hotdesk.api.e2b.builds.records import BuildContext

HASH = "0" * 64


def order(*steps: tuple[Any, ...], **more: Any) -> BuildOrder:
    """Make a build request from steps: a type and arguments, optionally with a dictionary of fields last."""
    made = []
    for kind, *args in steps:
        extra = args.pop() if args and isinstance(args[-1], dict) else {}
        made.append({"type": kind, "args": args, "force": False, **extra})
    return BuildOrder.model_validate({"fromImage": "e2bdev/base", "steps": made, **more})


def plan(*steps: tuple[Any, ...], base: str = "base", **more: Any) -> BuildPlan:
    return plan_build(order(*steps, **more), base, BuildContext())


def test_a_command_ends_a_layer_and_uses_earlier_settings() -> None:
    made = plan(("ENV", "A", "b"), ("USER", "root"), ("RUN", "x"), ("WORKDIR", "/app"), ("RUN", "y"), ("USER", "user"))
    assert [[each.number for each in layer.steps] for layer in made.layers] == [[1, 2, 3], [4, 5], [6]]
    assert made.layers[0].steps[-1].context == BuildContext("root", "", {"A": "b"})
    assert made.layers[1].steps[-1].context == BuildContext("root", "/app", {"A": "b"})
    assert made.context == BuildContext("user", "/app", {"A": "b"})
    assert [layer.acts for layer in made.layers] == [True, True, False]


def test_existing_users_and_folders_add_no_layer() -> None:
    made = plan(("USER", "user"), ("WORKDIR", "/home/user"), ("ENV", "A", "b"))
    assert not made.layers[0].acts
    assert plan(("USER", "guest")).layers[0].acts
    assert plan(("WORKDIR", "/app")).layers[0].acts


CHANGES: dict[str, tuple[Any, ...]] = {
    "the command": (("RUN", "b"),),
    "its user": (("RUN", "a", "root"),),
    "a variable before it": (("ENV", "A", "b"), ("RUN", "a")),
    "the user before it": (("USER", "root"), ("RUN", "a")),
    "the folder before it": (("WORKDIR", "/x"), ("RUN", "a")),
    "another kind": (("COPY", "a", "b", {"filesHash": HASH}),),
    "joined words": (("RUN", "a\x00"[:1], ""),),
}


@pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES.keys())
def test_a_layers_key_changes_with_anything_it_depends_on(steps: tuple[Any, ...]) -> None:
    assert plan(*steps).layers[-1].key != plan(("RUN", "a")).layers[-1].key


def test_a_layers_key_is_stable_and_depends_on_the_base() -> None:
    assert plan(("RUN", "a")).layers == plan(("RUN", "a")).layers
    assert plan(("RUN", "a")).layers[0].key != plan(("RUN", "a"), base="other").layers[0].key
    one, two = (plan(("COPY", "a", "b", {"filesHash": digit * 64})).layers[0].key for digit in "01")
    assert one != two


def test_a_forced_layer_forces_the_following_layers() -> None:
    made = plan(("RUN", "a"), ("RUN", "b", {"force": True}), ("RUN", "c"))
    assert [layer.forced for layer in made.layers] == [False, True, True]
    assert all(layer.forced for layer in plan(("RUN", "a"), force=True).layers)


def test_the_last_key_depends_on_the_start_command() -> None:
    assert plan(startCmd="a", readyCmd="b").final_key != plan(startCmd="a", readyCmd="c").final_key
    assert plan(startCmd="a").context.start == "a"


def test_layers_beyond_the_limit_are_merged_into_one() -> None:
    layers = plan(*[("RUN", str(number)) for number in range(10)]).layers
    merged = merge_tail(layers, 4)
    assert [len(layer.steps) for layer in merged] == [1, 1, 1, 7]
    assert merged[-1].key == layers[-1].key
    assert merge_tail(layers, 10) == list(layers)
    assert [len(layer.steps) for layer in merge_tail(layers, 0)] == [10]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"fromImage": "a", "fromTemplate": "b"},
        {"fromImage": "a", "steps": [{"type": "RUN", "args": []}]},
        {"fromImage": "a", "steps": [{"type": "SHELL", "args": ["x"]}]},
        {"fromImage": "a", "steps": [{"type": "COPY", "args": ["a", "b"]}]},
        {"fromImage": "a", "steps": [{"type": "COPY", "args": ["a", "b"], "filesHash": "../" + "0" * 61}]},
        {"fromImage": "a", "steps": [{"type": "ENV", "args": ["a", "b", "c"]}]},
        {"fromImage": "a", "steps": [{"type": "RUN", "args": ["a\0b"]}]},
        {"fromImage": "a", "steps": [{"type": "RUN", "args": ["a"]}] * 501},
    ],
)
def test_an_invalid_step_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BuildOrder.model_validate(body)


def test_relative_paths_are_resolved_from_the_root() -> None:
    assert join_path("/home/user", "a/./b/../c") == "/home/user/a/c"
    assert join_path("/home/user", "/x/../../y") == "/y"
    assert join_path("/home/user", "../../../..") == "/"


def test_different_argument_lists_have_different_keys() -> None:
    assert hash_key("ab", "c") != hash_key("a", "bc") != hash_key("a", "b", "c")
