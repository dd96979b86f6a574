"""Tests of deriving an image's apt sources from the machine's."""

from __future__ import annotations

import pytest

from hotdesk.desk.image.sources import (
    FORMAT,
    PackageIndex,
    find_distribution,
    format_lines,
    list_keyrings,
    parse,
    parse_settings,
    sanitize_line,
)
from hotdesk.errors import ImageError

KEYS = ["/usr/share/keyrings/debian-archive-keyring.gpg"]
SIGNED = f"[signed-by={KEYS[0]}] "
DEBIAN = "http://mirror.example.test/debian/"
SECURITY = "http://mirror.example.test/debian-security/"
UBUNTU = "http://mirror.example.test/ubuntu/"


def row(uri: str, release: str, component: str = "main", signed: str = "", origin: str = "", codename: str = "") -> str:
    """Write a line as apt prints it, which leaves unknown fields as literal placeholders."""
    known = ["Packages", uri, release, component, signed, origin, codename]
    return "|".join(field or default for field, default in zip(known, FORMAT.split("|"), strict=True))


def test_fields_unknown_to_apt_are_empty() -> None:
    assert parse(row(DEBIAN, "bookworm")) == [PackageIndex(DEBIAN, "bookworm", "main")]


@pytest.mark.parametrize(
    "text", ["", "\n", "nonsense", "Translations|x|bookworm|main||Debian|bookworm", "a|b", "|" * 6]
)
def test_other_lines_are_left_out(text: str) -> None:
    assert parse(text) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [
                row(DEBIAN, "bookworm", origin="Debian", codename="bookworm"),
                row(DEBIAN, "bookworm-updates", origin="Debian", codename="bookworm-updates"),
                row(SECURITY, "bookworm-security", origin="Debian", codename="bookworm-security"),
            ],
            [
                f"deb {SIGNED}{DEBIAN} trixie main",
                f"deb {SIGNED}{DEBIAN} trixie-updates main",
                f"deb {SIGNED}{SECURITY} trixie-security main",
            ],
            id="bookworm",
        ),
        pytest.param(
            [row(DEBIAN, "trixie", part, origin="Debian") for part in ("main", "contrib", "non-free", "main", "odd")],
            [f"deb {SIGNED}{DEBIAN} trixie main contrib non-free"],
            id="deb822 with several components, one unknown",
        ),
        pytest.param(
            [
                row(SECURITY, "stable-security", origin="Debian", codename="trixie-security"),
                row(DEBIAN, "stable", origin="Debian", codename="trixie"),
                row(DEBIAN, "stable-backports", origin="Debian", codename="trixie-backports"),
            ],
            [f"deb {SIGNED}{DEBIAN} trixie main", f"deb {SIGNED}{SECURITY} trixie-security main"],
            id="releases by class, backports left out",
        ),
        pytest.param(
            [row(DEBIAN, "buster", origin="Debian"), row(SECURITY, "buster/updates", origin="Debian")],
            [f"deb {SIGNED}{DEBIAN} trixie main", f"deb {SIGNED}{SECURITY} trixie-security main"],
            id="the old name of security",
        ),
        pytest.param(
            [
                row(DEBIAN, "bookworm", signed="/etc/apt/keyrings/ours.gpg", origin="Debian"),
                row("https://tools.example.test/", "bookworm", "stable", origin="Tools"),
                row("https://tools.example.test/apt/", "bookworm", origin="Tools"),
            ],
            [f"deb [signed-by={KEYS[0]},/etc/apt/keyrings/ours.gpg] {DEBIAN} trixie main"],
            id="a mirror signed anew, and a stranger's repository",
        ),
        pytest.param(
            [row(DEBIAN, "sid", signed="A" * 40, origin="Debian")],
            [f"deb {SIGNED}{DEBIAN} trixie main"],
            id="signed by a fingerprint",
        ),
        pytest.param([row(DEBIAN, "bookworm")], [f"deb {SIGNED}{DEBIAN} trixie main"], id="no Origin at all"),
    ],
)
def test_debian_sources_are_derived(rows: list[str], expected: list[str]) -> None:
    targets = parse("\n".join(rows))
    assert find_distribution(targets, fallback="debian")[0] == "debian"
    assert format_lines(targets, "debian", "trixie", KEYS) == expected


def test_ubuntu_is_built_from_its_own_release() -> None:
    rows = [
        row(UBUNTU, f"noble{pocket}", part, origin="Ubuntu", codename="noble")
        for pocket in ("", "-updates", "-backports", "-security")
        for part in ("main", "universe")
    ]
    rows.append(row("https://esm.example.test/", "noble-apps-security", origin="UbuntuESMApps", codename="noble"))
    targets = parse("\n".join(rows))
    assert find_distribution(targets) == ("ubuntu", "noble")
    key = "[signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg] "
    assert format_lines(targets, "ubuntu", "noble", list_keyrings("ubuntu")) == [
        f"deb {key}{UBUNTU} noble main universe",
        f"deb {key}{UBUNTU} noble-updates main universe",
        f"deb {key}{UBUNTU} noble-security main universe",
    ]


def test_a_machine_with_foreign_package_sources_is_reported() -> None:
    targets = parse(row("https://tools.example.test/", "stable", origin="Tools"))
    with pytest.raises(ImageError, match="apt-get update"):
        find_distribution(targets)
    with pytest.raises(ImageError, match="apt-get update"):
        format_lines(targets, "debian", "trixie")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"deb {SIGNED}{DEBIAN} trixie main", f"deb {DEBIAN} trixie main"),
        ("deb https://me:secret@m.example.test/d trixie main", "deb https://m.example.test/d trixie main"),
        ("deb [signed-by=/a] http://me@m.example.test/d trixie main", "deb http://m.example.test/d trixie main"),
    ],
)
def test_an_images_sources_hold_no_secret_of_the_machine(line: str, expected: str) -> None:
    assert sanitize_line(line) == expected


def test_the_machines_proxies_for_its_mirrors_are_used() -> None:
    dump = """
APT::Architecture "arm64";
Acquire::http "";
Acquire::http::Proxy "http://proxy.example.test:3128";
Acquire::https::mirror.example.test::Verify-Peer "true";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false";
Acquire::Languages:: "none";
Acquire::http::Proxy-Auto-Detect "/usr/bin/x\\" evil";
DPkg::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
"""
    assert parse_settings(dump) == [
        'Acquire::http::Proxy "http://proxy.example.test:3128";',
        'Acquire::https::mirror.example.test::Verify-Peer "true";',
        'Acquire::Retries "3";',
        'Acquire::Check-Valid-Until "false";',
    ]
