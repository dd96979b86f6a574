"""Tests of the preflight's table and judgement, as data, and of the probe's program against real sockets."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from tools.manifests import find_pod_faults

from hotdesk.desk.pod import probe
from hotdesk.desk.pod.preflight import (
    Addresses,
    ProbeTarget,
    add_peers,
    build_table,
    judge,
    make_rows,
    parse_outcomes,
    require_trusted,
)
from hotdesk.desk.pod.probe_pods import ProbedPool, build_probe_pod
from hotdesk.errors import HostError

KUBELETS = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
ADDRESSES = Addresses(("10.1.0.1", 3128), 3710, ("10.0.0.9", 6443), KUBELETS, dns="10.96.0.10")
TABLE = add_peers(build_table(ADDRESSES, "n1"), "n1", {"n1": ["10.2.0.1", "fd00::1"], "n2": ["10.2.1.1", "fd00::2"]})
ENFORCED = {each.name: "open" if each.is_allowed else "silent" for each in TABLE}
WITHOUT = {each.name: "silent" if each.is_protected else "open" for each in TABLE}


def decide(probed: dict[str, str], control: dict[str, str]) -> tuple[str, ...]:
    return judge(make_rows("n1", TABLE, probed, control), ["n1"]).faults


def test_the_table_has_every_kind_of_address_once() -> None:
    assert [each.name for each in TABLE] == [
        "the door", "another port of the door", "the API server", "the cloud's metadata", "a public address",
        "a public address of IPv6", "DNS",
        "DNS over TCP", "this node's kubelet", "the kubelet of n2", "pod on this node", "pod on this node by IPv6",
        "pod on another node", "pod on another node by IPv6",
    ]  # fmt: skip
    assert [each.name for each in TABLE if each.is_allowed] == ["the door"]


def test_a_pool_of_one_node_has_no_pod_on_another() -> None:
    assert [each.name for each in add_peers([], "n1", {"n1": ["10.2.0.1"]})] == ["pod on this node"]


def test_a_pool_that_enforces_the_policy_is_trusted() -> None:
    assert decide(ENFORCED, WITHOUT) == ()
    report = judge(make_rows("n1", TABLE, ENFORCED, WITHOUT), ["n1"])
    require_trusted(report)
    assert "WRONG" not in report.format()


@pytest.mark.parametrize("name", [each.name for each in TABLE if not each.is_allowed])
def test_a_pool_in_which_a_pod_reaches_anything_else_is_refused(name: str) -> None:
    [fault] = decide(ENFORCED | {name: "open"}, WITHOUT)
    assert f"n1: the network policy is not enforced: a pod reaches {name}; use a network plug-in" in fault


@pytest.mark.parametrize("name", [each.name for each in TABLE if each.is_protected])
@pytest.mark.parametrize("outcome", ["open", "failed"])
def test_a_pool_in_which_a_pod_without_the_policy_connects_into_a_desk_is_refused(name: str, outcome: str) -> None:
    report = judge(make_rows("n1", TABLE, ENFORCED, WITHOUT | {name: outcome}), ["n1"])
    [fault] = report.faults
    assert f"n1: the network policy admits connections into desks: a pod without it reaches {name};" in fault
    assert report.format().count("WRONG") == 1


def test_that_others_connect_into_desks_does_not_show_that_the_policy_is_enforced() -> None:
    exposed = {each.name: "open" for each in TABLE if each.is_protected}
    faults = decide(ENFORCED, ENFORCED | exposed)
    assert ["admits" in fault or "nothing shows" in fault for fault in faults] == [True, True]


def test_the_reasons_and_the_table_are_in_the_error() -> None:
    report = judge(make_rows("n1", TABLE, WITHOUT, WITHOUT), ["n1"])
    with pytest.raises(HostError, match="not enforced") as caught:
        require_trusted(report)
    assert "the API server" in str(caught.value)
    assert "WRONG" in report.format()


def test_a_pool_in_which_the_door_is_not_reached_is_refused() -> None:
    [fault] = decide(ENFORCED | {"the door": "silent"}, WITHOUT)
    assert "cannot reach the door" in fault


def test_a_pool_in_which_nothing_is_reached_without_the_policy_either_proves_nothing() -> None:
    [fault] = decide(ENFORCED, ENFORCED)
    assert "nothing shows that the network policy is enforced" in fault


def test_a_refusal_is_an_answer_unless_something_listens_there() -> None:
    unused = "the cloud's metadata"
    assert decide(ENFORCED | {unused: "refused"}, WITHOUT | {unused: "refused"}) != ()
    assert decide(ENFORCED | {unused: "refused"}, WITHOUT) == ()
    assert decide(ENFORCED | {"the API server": "refused"}, WITHOUT) == ()
    assert decide(ENFORCED | {"the API server": "refused"}, WITHOUT | {"the API server": "silent"}) == ()


def test_a_refusal_that_the_control_pod_got_too_is_not_the_policys() -> None:
    [fault] = decide(ENFORCED | {"the API server": "refused"}, WITHOUT | {"the API server": "refused"})
    assert "a pod reaches the API server" in fault


@pytest.mark.parametrize("outcome", ["refused", "failed", "unreachable", "silent"])
def test_the_door_is_only_reached_if_it_is_open(outcome: str) -> None:
    assert "cannot reach the door" in decide(ENFORCED | {"the door": outcome}, WITHOUT | {"the door": outcome})[0]


def test_an_attempt_that_failed_for_another_reason_is_no_proof() -> None:
    assert decide(ENFORCED | {"DNS": "failed"}, WITHOUT) != ()


def test_every_node_is_judged_and_a_pool_without_nodes_is_refused() -> None:
    rows = make_rows("n1", TABLE, ENFORCED, WITHOUT)
    assert [fault[:3] for fault in judge(rows, ["n1", "n2"]).faults] == ["n2:", "n2:"]
    assert not judge([], []).is_trusted


@pytest.mark.parametrize(
    "output",
    ["", "{", "[]", "null", '{"the door": "open"}', json.dumps(ENFORCED | {"more": "open"}), "[" * 60_000,
     json.dumps(ENFORCED | {"DNS": "fine"}), json.dumps(ENFORCED | {"DNS": None}), json.dumps(ENFORCED) + "\n\x1b[2J"],
)  # fmt: skip
def test_output_that_is_not_one_outcome_for_each_address_is_refused(output: str) -> None:
    with pytest.raises(HostError, match="printed no result") as caught:
        parse_outcomes(output, TABLE)
    assert "\x1b" not in str(caught.value)


def test_the_last_line_is_the_result() -> None:
    assert parse_outcomes(f"listening\n{json.dumps(ENFORCED)}\n", TABLE) == ENFORCED


def test_a_probe_pod_is_restricted_and_selected_like_a_desk() -> None:
    pool = ProbedPool("desks", "image:1", ["n1"], ADDRESSES, {"app": "desk"}, runtime_class="gvisor")
    pod = build_probe_pod(pool, "p", "n1", TABLE, is_control=False)
    assert pod["metadata"]["labels"] == {"app": "desk", "hotdesk/preflight": "desk"}
    assert pod["spec"]["runtimeClassName"] == "gvisor"
    control = build_probe_pod(pool, "p", "n1", TABLE, is_control=True)
    assert control["metadata"]["labels"] == {"hotdesk/preflight": "control"}
    for each in (pod, control):
        assert list(find_pod_faults(each["spec"])) == []
        assert not each["spec"]["automountServiceAccountToken"]


@contextmanager
def listen(kind: socket.SocketKind) -> Iterator[int]:
    """Answer everything on a port of loopback; yield the port."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(20)
        if kind == socket.SOCK_STREAM:
            sock.listen()
        thread = threading.Thread(target=_answer, args=(sock, kind))
        thread.start()
        yield int(sock.getsockname()[1])
        sock.shutdown(socket.SHUT_RDWR) if kind == socket.SOCK_STREAM else sock.sendto(b"", sock.getsockname())
        thread.join()


def _answer(sock: socket.socket, kind: socket.SocketKind) -> None:
    with suppress(OSError):
        while True:
            if kind == socket.SOCK_STREAM:
                sock.accept()[0].close()
            else:
                query, caller = sock.recvfrom(512)
                if not query:
                    return
                sock.sendto(query, caller)


def test_an_address_is_open_refused_or_silent() -> None:
    with listen(socket.SOCK_STREAM) as tcp, listen(socket.SOCK_DGRAM) as dns:
        assert probe.try_address("tcp", "127.0.0.1", tcp) == probe.OPEN
        assert probe.try_address("dns", "127.0.0.1", dns) == probe.OPEN
    with socket.socket() as unused, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        unused.bind(("127.0.0.1", 0))
        assert probe.try_address("tcp", "127.0.0.1", unused.getsockname()[1]) == probe.REFUSED
        assert probe.try_address("dns", "127.0.0.1", unused.getsockname()[1]) == probe.REFUSED
        mute.bind(("127.0.0.1", 0))
        assert probe.try_address("dns", "127.0.0.1", mute.getsockname()[1]) == probe.SILENT


def test_the_program_prints_a_result_that_is_understood() -> None:
    with listen(socket.SOCK_STREAM) as tcp, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        table = [
            ProbeTarget("door", "127.0.0.1", tcp, is_allowed=True),
            ProbeTarget("other", "127.0.0.1", unused.getsockname()[1]),
        ]
        pool = ProbedPool("desks", "image", ["n1"], ADDRESSES, {}, python=sys.executable)
        [container] = build_probe_pod(pool, "p", "n1", table, is_control=False)["spec"]["containers"]
        done = subprocess.run(container["command"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[0] == probe.READY
    assert parse_outcomes(done.stdout, table) == {"door": "open", "other": "refused"}
