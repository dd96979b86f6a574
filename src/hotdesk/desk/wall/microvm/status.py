"""Status of the microVM wall on this machine: its emulator, and whether KVM is used."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from hotdesk.config import MIB, Config
from hotdesk.desk.image.image import Image, find
from hotdesk.errors import ImageError
from hotdesk.walls import TRAITS, Traits, WallStatus
from hotdesk_vmm.qemu import TRANSLATIONS_MIB

NAME = "microvm"
IMAGE = TRAITS[NAME].stage
KVM = "/dev/kvm"
_FLAGS = {"vmx", "svm"}
EMULATED = "emulated"
VERSIONS = "/usr/local/lib/hotdesk/vmm.json"
"""The file in the image with the versions of its emulator and kernel."""
OLDEST = (10, 0)
"""The oldest QEMU that is known to save and load desks."""
_EMULATED_START_S = 240.0
_REMEDY = "`hotdesk setup --wall microvm` sets it up"
_EMULATE = (
    "use a machine with KVM; to try this wall without KVM, set emulate = true in [wall.microvm], which is slow and "
    "no stronger than a container"
)


def choose_accelerator(settings: Config) -> Literal["kvm", "tcg", ""]:
    """Return how virtual machines run here; empty if they cannot."""
    if not find_kvm_flaw():
        return "kvm"
    return "tcg" if settings.microvm_emulate else ""


@cache
def find_kvm_flaw() -> str:
    """Return why KVM cannot run a virtual machine here; empty if it can.

    On x86_64 a host's kernel may offer KVM without the processor's virtualization (kvm_pvm). Such a KVM interprets the
    instructions of a guest kernel that was not built for it, and fails at the first instruction it does not know.
    """
    if not os.path.exists(KVM):
        return f"{KVM} does not exist"
    if os.uname().machine == "x86_64" and not _FLAGS & _read_processor_flags():
        return f"{KVM} exists, but this machine's processor offers no virtualization (vmx or svm)"
    return ""


def _read_processor_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


def describe_traits(accelerator: str) -> Traits:
    """Return the wall's traits with an accelerator. According to QEMU's developers emulation isolates nothing."""
    usual = TRAITS[NAME]
    if accelerator != "tcg":
        return usual
    memory = usual.kernel_memory + TRANSLATIONS_MIB * MIB
    return replace(usual, is_boundary=False, kernel_memory=memory, start_seconds=_EMULATED_START_S)


def look(settings: Config) -> WallStatus:
    accelerator = choose_accelerator(settings)
    traits = describe_traits(accelerator)
    if not accelerator:
        return WallStatus(NAME, traits, find_kvm_flaw(), _EMULATE)
    try:
        image = find(settings.images, IMAGE)
    except ImageError:
        return WallStatus(NAME, traits, f"the image {IMAGE} does not exist", _REMEDY)
    versions = _read_versions(image)
    emulator = versions.get("qemu", "")
    missing = (
        ""
        if _is_new_enough(emulator)
        else f"the image {IMAGE} has QEMU {emulator or 'of an unknown version'}; 10.0 or newer is needed"
    )
    return WallStatus(
        NAME,
        traits,
        missing,
        _REMEDY if missing else "",
        program=f"image {IMAGE}",
        version=f"QEMU {emulator}, Linux {versions.get('kernel', '')}".strip(),
        platform="kvm" if accelerator == "kvm" else EMULATED,
        released=image.built,
    )


def _read_versions(image: Image) -> dict[str, str]:
    file = image.find_file(VERSIONS)
    try:
        values = json.loads(file.read_text()) if file else {}
    except (OSError, ValueError):
        return {}
    return {str(name): str(value)[:40] for name, value in values.items()} if isinstance(values, dict) else {}


def _is_new_enough(version: str) -> bool:
    numbers = version.split(".")
    return len(numbers) > 1 and all(each.isdigit() for each in numbers[:2]) and tuple(map(int, numbers[:2])) >= OLDEST
