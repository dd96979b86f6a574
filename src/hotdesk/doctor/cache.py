"""Measures of the shared page cache: known kernel flaws, oopses, and separate copies for verifying desks."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image import sterile
from hotdesk.doctor.measure import Finding, JudgedMeasure, Measure, report_failure, report_pass, report_untested

MENDED = {(6, 18): 29, (7, 0): 6}
"""The first release of each series with fixes for all of FLAWS, as distributions announced them in May 2026."""
_MENDED_SINCE = (7, 1)
FLAWS = "CVE-2026-31431, -43284 and -43500"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The kernel's release, and its taint flags."""

    release: str
    tainted: int


@dataclass(frozen=True, slots=True)
class Apart:
    """The superblocks used by two desks of one image, from their keeper's mountinfo."""

    working: frozenset[str]
    verifying: frozenset[str]


def look() -> KernelReport:
    return KernelReport(os.uname().release, sterile.read_kernel_taint())


def find_superblocks(mountinfo: str, room: Path) -> frozenset[str]:
    shape = re.compile(rf"\S+ \S+ (\d+:\d+) \S+ {re.escape(str(room))}/l\d+ ")
    return frozenset(found[1] for line in mountinfo.splitlines() if (found := shape.match(line)))


def judge_release(kernel: KernelReport) -> Finding:
    """Judge a kernel by its release, which does not show fixes that a distribution added to an older one."""
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", kernel.release)
    series = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    patch = int(numbers[3] or 0) if numbers else 0
    if series >= _MENDED_SINCE or patch >= MENDED.get(series, 1 << 30):
        return report_pass(f"kernel {kernel.release} has the fixes for {FLAWS}")
    if series in MENDED and patch:
        return report_failure(
            f"kernel {kernel.release} is vulnerable to {FLAWS}; they are fixed in "
            f"{series[0]}.{series[1]}.{MENDED[series]}"
        )
    return report_untested(
        f"the release {kernel.release} does not show whether the kernel has the fixes for {FLAWS}; see the "
        "security advisories of your distribution"
    )


def judge_soundness(kernel: KernelReport) -> Finding:
    if sterile.is_suspect(kernel.tainted):
        return report_failure(
            f"the kernel has reported an internal error (oops; tainted={kernel.tainted}): its page cache may be corrupt"
        )
    return report_pass(f"the kernel has reported no internal error (tainted={kernel.tainted})")


def judge_separation(disks: Apart) -> Finding:
    if not disks.working or not disks.verifying:
        return report_failure("the image layers of a desk were not found among the mounts of its keeper process")
    if shared := disks.working & disks.verifying:
        return report_failure(f"both desks use the devices {', '.join(sorted(shared))}")
    return report_pass(
        f"the working desk uses the devices {', '.join(sorted(disks.working))}, "
        f"the verifying desk {', '.join(sorted(disks.verifying))}"
    )


CHECKS: tuple[JudgedMeasure[KernelReport], ...] = (
    JudgedMeasure(
        Measure(
            "kernel-mended",
            "machine",
            "the kernel has the fixes for known flaws that let a desk change the page cache of others",
            "tested from the host: compare the kernel's release with the releases that have the fixes",
            "boot your distribution's newest kernel",
        ),
        judge_release,
    ),
    JudgedMeasure(
        Measure(
            "kernel-sound",
            "machine",
            "the kernel has reported no internal error (oops) since it was booted",
            "tested from the host: read /proc/sys/kernel/tainted",
            "see `dmesg`, then reboot; until then image copies for verifying desks are checked before each mount",
        ),
        judge_soundness,
    ),
)
APART = JudgedMeasure(
    Measure(
        "own-superblock",
        "files",
        "a desk that verifies files shares no page cache with a desk where workers act",
        "tested from the host: compare the devices of both desks' image layers in the mountinfo of their keeper "
        "process",
        "run `sudo hotdesk setup`, which creates the copies of images for verifying desks",
    ),
    judge_separation,
)
