"""Find the wheels an image's Python can use."""

from __future__ import annotations

import re

from hotdesk.errors import ImageError

PROBE = "import sys, os; print(*sys.version_info[:2], os.uname()[4], os.confstr('CS_GNU_LIBC_VERSION'))"
"""Run by the image's Python; prints for example `3 13 aarch64 glibc 2.41`."""
_ANSWER_SHAPE = re.compile(r"3 (\d{1,3}) (\w{1,20}) glibc 2\.(\d{1,3})\s*")
_OLDEST_GLIBC = 17


def list_platform_options(answer: str) -> list[str]:
    """Return pip's options for the Python that printed `answer`, newest C library first."""
    match = _ANSWER_SHAPE.fullmatch(answer)
    if match is None:
        raise ImageError(
            f"`pip` in a recipe needs an image with python3 and glibc; the image's Python reported {answer[:60]!r}"
        )
    minor, machine, glibc = match.groups()
    platforms = [f"manylinux_2_{each}_{machine}" for each in range(int(glibc), _OLDEST_GLIBC - 1, -1)]
    options = ["--implementation", "cp", "--python-version", f"3.{minor}"]
    for abi in (f"cp3{minor}", "abi3", "none"):
        options += ["--abi", abi]
    for platform in (*platforms, f"manylinux2014_{machine}", f"linux_{machine}"):
        options += ["--platform", platform]
    return options
