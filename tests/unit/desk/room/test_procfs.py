"""Tests of the /proc files that show a desk's size, written from its cgroup's counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.config import GIB, MIB
from hotdesk.desk.room import cpu_set, procfs
from hotdesk.linux.cgroup import TICKS, CpuTimes, MemoryUse

X86 = """processor\t: {0}
vendor_id\t: GenuineIntel
model name\t: Some CPU

"""
OTHERS = "Hardware\t: Some board\nprocessor count\t: 9\n\n"


def fields(text: bytes) -> dict[str, int]:
    return {line.split(":")[0]: int(line.split()[1]) for line in text.decode().splitlines()}


def test_memory_is_the_limit_less_what_is_used() -> None:
    use = MemoryUse(total=100 * MIB, anon=40 * MIB, active_file=10 * MIB, inactive_file=30 * MIB, shared=20 * MIB)
    told = fields(procfs.format_meminfo(256 * MIB, use))
    assert (told["MemTotal"], told["MemFree"]) == (256 << 10, 156 << 10)
    assert told["MemAvailable"] == 196 << 10, "what is cached of files can be had"
    assert (told["Cached"], told["Shmem"], told["SwapTotal"]) == (60 << 10, 20 << 10, 0)


def test_a_limit_above_the_machines_memory_is_the_machines() -> None:
    assert fields(procfs.format_meminfo(1 << 50, MemoryUse()))["MemTotal"] == procfs.HOST_MEMORY >> 10


def test_a_desk_at_its_limit_has_nothing_free_and_no_less() -> None:
    told = fields(procfs.format_meminfo(64 * MIB, MemoryUse(total=65 * MIB, anon=65 * MIB)))
    assert (told["MemFree"], told["MemAvailable"]) == (0, 0)


def test_the_length_of_meminfo_is_constant_so_that_readers_see_no_torn_line() -> None:
    texts = {len(procfs.format_meminfo(limit, MemoryUse())) for limit in (16 * MIB, GIB, 1 << 50)}
    assert len(texts) == 1


def test_stat_has_a_line_a_cpu_and_counts_idle_time() -> None:
    lines = procfs.stat(0.5, CpuTimes(user=1.0, system=0.5), 10.0).decode().splitlines()
    ticks = TICKS
    assert lines[0].split() == ["cpu", str(ticks), "0", str(ticks // 2), str(ticks * 17 // 2), *["0"] * 6]
    assert [line.split()[0] for line in lines if line.startswith("cpu")] == ["cpu", "cpu0"]
    assert f"btime {procfs.HOST_BOOT}" in lines


def test_blocks_that_are_not_cpus_are_left_out() -> None:
    text = "".join(X86.format(number) for number in (0, 1, 7)) + OTHERS
    assert procfs.split_cpu_blocks(text) == [X86.format(number).strip() for number in (0, 1, 7)]


def test_cpus_are_numbered_from_zero() -> None:
    told = procfs.format_cpuinfo(len(procfs.HOST_CPUS)).decode().splitlines()
    numbers = [line.partition(":")[2].strip() for line in told if line.startswith("processor")]
    assert numbers == [str(number) for number in range(len(cpu_set.HOST))]


def test_a_file_is_rewritten_in_place(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    file.write_bytes(b"a longer text")
    inode = file.stat().st_ino
    procfs.rewrite(str(file), b"short")
    assert (file.read_bytes(), file.stat().st_ino) == (b"short", inode)


@pytest.mark.parametrize(("cpus", "wanted"), [(0.01, 1), (1.0, 1), (1.5, 2), (2.5, 3), (4.0, 4), (400.0, 4)])
def test_cpus_are_rounded_up_to_what_the_machine_has(cpus: float, wanted: int) -> None:
    assert cpu_set.count(cpus, (0, 1, 4, 5)) == wanted


def test_desks_that_follow_each_other_use_all_cpus_in_turn() -> None:
    host = (0, 1, 2, 3, 8)
    chosen = [cpu_set.choose(2.0, slot, host) for slot in range(5)]
    assert chosen[:3] == [{0, 1}, {2, 3}, {0, 8}]
    assert all(sum(cpu in each for each in chosen) == 2 for cpu in host)
