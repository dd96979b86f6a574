"""Package sources for an image: the machine's own apt sources, adapted to the image's release."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError, ImageError

FIELDS = ("CREATED_BY", "REPO_URI", "RELEASE", "COMPONENT", "SIGNED_BY", "ORIGIN", "CODENAME")
FORMAT = "|".join(f"$({field})" for field in FIELDS)
COMPONENTS = {
    "debian": ("main", "contrib", "non-free", "non-free-firmware"),
    "ubuntu": ("main", "restricted", "universe", "multiverse"),
}
_POCKETS = ("", "-updates", "-security")
_SETTING_SHAPE = re.compile(
    r'^(Acquire::(?:https?::|ftp::|Retries|ForceIPv|Check-Valid)[\w:./@-]*) "([^"\\\n]+)";$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """A package index that this machine's apt knows."""

    uri: str
    release: str
    component: str
    signed_by: str = ""
    origin: str = ""
    codename: str = ""

    @property
    def pocket(self) -> str | None:
        """Return the part of a release: empty for itself, `-updates`, `-security`, or `None` for any other."""
        if self.release.endswith("/updates"):
            return "-security"
        _, dash, rest = self.release.partition("-")
        return f"{dash}{rest}" if f"{dash}{rest}" in _POCKETS else None

    @property
    def stem(self) -> str:
        """Return the release's name without its pocket."""
        return re.split("[-/]", self.codename or self.release, maxsplit=1)[0]


def parse(text: str) -> list[PackageIndex]:
    """Parse the output of `apt-get indextargets`; a field that apt does not know is printed as `$(FIELD)`."""
    targets = []
    for line in text.splitlines():
        fields = ["" if field.startswith("$(") else field.strip() for field in line.split("|")]
        if len(fields) == len(FIELDS) and fields[0] == "Packages" and all(fields[1:4]):
            targets.append(PackageIndex(*fields[1:]))
    return targets


def find_distribution(targets: Sequence[PackageIndex], fallback: str = "") -> tuple[str, str]:
    """Return the distribution and release this machine gets packages from, such as `("ubuntu", "noble")`."""
    for name in COMPONENTS:
        own = [each for each in targets if (each.origin or fallback).lower() == name and each.pocket == ""]
        if own:
            return name, own[0].stem
    raise ImageError(
        "this machine's apt has no source of Debian or Ubuntu packages: run `sudo apt-get update`, "
        "or import an image from another machine: `hotdesk image import`"
    )


def format_lines(targets: Sequence[PackageIndex], distro: str, suite: str, keyrings: Sequence[str] = ()) -> list[str]:
    found: dict[tuple[str, str], PackageIndex] = {}
    components: dict[tuple[str, str], list[str]] = {}
    for target in targets:
        if (target.origin or distro).lower() != distro or target.component not in COMPONENTS[distro]:
            continue
        if target.pocket is not None:
            key = (target.uri, target.pocket)
            found.setdefault(key, target)
            if target.component not in components.setdefault(key, []):
                components[key].append(target.component)
    if not any(pocket == "" for _, pocket in found):
        raise ImageError(
            f"this machine's apt has no source for {distro} {suite}: add one in /etc/apt/sources.list.d, "
            "then run `sudo apt-get update`"
        )
    return [
        f"deb {format_options(target, keyrings)}{uri} {suite}{pocket} {' '.join(components[uri, pocket])}"
        for (uri, pocket), target in sorted(found.items(), key=lambda each: _POCKETS.index(each[0][1]))
    ]


def format_options(target: PackageIndex, keyrings: Sequence[str]) -> str:
    """Return a source line's trusted keys as its options: the distribution's and the machine's for that mirror."""
    own = [key for key in target.signed_by.split(",") if key.startswith("/")]
    keys = list(dict.fromkeys([*keyrings, *own]))
    return f"[signed-by={','.join(keys)}] " if keys else ""


def sanitize_line(line: str) -> str:
    """Return a source line without credentials and paths of this machine, as it may be stored in an image."""
    return re.sub(r"//[^/@ ]*@", "//", re.sub(r"^deb \[[^]]*\] ", "deb ", line))


def parse_settings(dump: str) -> list[str]:
    """Return the settings for reaching this machine's mirrors in `apt-config dump`: proxies, certificates, retries."""
    return [f'{key} "{value}";' for key, value in _SETTING_SHAPE.findall(dump)]


def list_keyrings(distro: str) -> list[str]:
    return [f"/usr/share/keyrings/{distro}-archive-keyring.gpg"]


def read() -> list[PackageIndex]:
    targets = parse(ask("apt-get", "indextargets", "--format", FORMAT))
    if not targets:
        raise HostError("this machine's apt has no package lists to build from: run `sudo apt-get update`")
    return targets


def read_settings() -> list[str]:
    return parse_settings(ask("apt-config", "dump"))


def ask(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    except FileNotFoundError as e:
        remedy = "build on Debian or Ubuntu, then `hotdesk image import` it here"
        raise HostError(f"{argv[0]} is not on this machine: {remedy}") from e
    except (subprocess.SubprocessError, UnicodeDecodeError) as e:
        raise HostError(f"{argv[0]} {argv[1]} failed: {e}") from e
