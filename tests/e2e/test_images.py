"""Tests of the images that come with hotdesk: they have the promised programs, and no excluded licence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

BROWSER = "/usr/local/lib/hotdesk/browser"
PAGES = "curl -sf --noproxy '*' http://127.0.0.1:9222/json/list | jq -r '.[] | select(.type == \"page\") | .url'"
MODULES = (
    *("docx", "matplotlib", "openpyxl", "pandas", "pdfplumber", "pptx", "pypdf", "pypdfium2", "reportlab"),
    *("tkinter", "uno", "xlsxwriter"),
)
PROGRAMS = (
    *(
        "chromium",
        "fc-match",
        "git",
        "lxterminal",
        "mousepad",
        "nedit",
        "node",
        "npm",
        "pcmanfm",
        "pdftoppm",
        "pdftotext",
    ),
    *("scrot", "soffice", "tesseract", "tkremind", "wmctrl", "xclip", "xdotool", "xprop", "xterm"),
)
FONTS = {
    "Calibri": "Carlito",
    "Cambria": "Caladea",
    "sans:lang=ja": "Noto Sans CJK JP",
    "sans:lang=zh-cn": "Noto Sans CJK SC",
    "sans:lang=ko": "Noto Sans CJK KR",
    "emoji": "Noto Color Emoji",
}
PLACES = "/usr/share/fonts /usr/share/poppler"
AFFERO = r"^License: .*(AGPL|Affero)"
OF_MPL = "License, Version 2.1, the GNU Affero General"
"""The MPL's text about other licences."""
PERMITTED = {"poppler-data"}
"""A package that has AGPL files, none of which is in the image."""
CONVERT = """
import openpyxl, pypdf, subprocess
book = openpyxl.Workbook()
book.active.append(["Total", 41])
book.active["B2"] = "=B1+1"
book.save("sums.xlsx")
subprocess.run(["soffice", "--headless", "--convert-to", "pdf", "sums.xlsx"], check=True, capture_output=True)
print(pypdf.PdfReader("sums.pdf").pages[0].extract_text())
"""


@pytest.fixture(scope="module")
async def desk(settings: Config) -> AsyncIterator[Desk]:
    async with fresh(settings) as desk:
        await lines(desk, SESSION)
        with anyio.fail_after(20):  # the session does not wait for its panel
            while await count(desk, "tint2") != [1]:
                await anyio.sleep(0.05)
        yield desk


@asynccontextmanager
async def fresh(settings: Config) -> AsyncIterator[Desk]:
    async with Host(settings, control=False) as host, host.open_desk(Spec(image="desktop")) as desk:
        yield desk


async def lines(desk: Desk, script: str) -> list[str]:
    """Run a shell script that must succeed; return the lines of its output."""
    done = await desk.run(["sh", "-euc", script], timeout=60)
    assert done.ok, done
    return done.text.splitlines()


async def count(desk: Desk, *programs: str) -> list[int]:
    """Return how many processes each program has, without ended ones that were not waited for."""
    return [int((await lines(desk, f"pgrep -cx --runstates D,R,S,T {each} || true"))[0]) for each in programs]


async def test_concurrent_requests_start_one_session_that_outlives_the_first(settings: Config) -> None:
    async with fresh(settings) as desk:
        first = await desk.start([SESSION, "sleep", "100"])
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(lines, desk, SESSION)
        with anyio.fail_after(10):
            while await count(desk, "tint2", "sleep") != [1, 1]:
                await anyio.sleep(0.05)
        await first.kill()
        assert await count(desk, "Xvnc", "openbox", "tint2", "sleep") == [1, 1, 1, 0]


async def test_a_screen_that_died_starts_again(settings: Config) -> None:
    async with fresh(settings) as desk:
        await lines(desk, f"{SESSION}; pkill -KILL -x Xvnc; while pgrep -x 'Xvnc|openbox|tint2'; do sleep 0.05; done")
        await lines(desk, SESSION)
        assert await count(desk, "Xvnc", "openbox") == [1, 1]


async def test_a_screen_that_is_up_is_not_started_again(desk: Desk) -> None:
    before = await lines(desk, "pgrep -x 'Xvnc|openbox|tint2'")
    await lines(desk, SESSION)
    assert await lines(desk, "pgrep -x 'Xvnc|openbox|tint2'") == before
    assert "1280x800" in " ".join(await lines(desk, "DISPLAY=:0 xdpyinfo"))


async def test_every_way_to_start_a_browser_gives_the_same_one_which_can_be_driven(settings: Config) -> None:
    async with fresh(settings) as desk:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lines, desk, BROWSER)
        await lines(desk, f"{SESSION} chromium file:///etc/hostname >/dev/null 2>&1 </dev/null")
        with anyio.fail_after(10):
            while "file:///etc/hostname" not in await lines(desk, PAGES):
                await anyio.sleep(0.1)
        assert await lines(desk, "pgrep -fc '^/usr/lib/chromium/chromium --[^t]'") == ["1"]
        assert await lines(desk, "ls -d ~/.config/*/Default") == ["/home/user/.config/browser/Default"]


async def test_every_promised_module_and_program_is_there(desk: Desk) -> None:
    done = await desk.run(["python3", "-c", f"import {', '.join(MODULES)}"], timeout=60)
    assert done.ok, done.stderr
    missing = f"for each in {' '.join(PROGRAMS)}; do command -v $each >/dev/null || echo $each; done"
    assert await lines(desk, missing) == []


async def test_a_recipes_files_belong_to_root_and_are_executable_if_they_say_so(desk: Desk) -> None:
    asked = f"stat -c '%a %u' {SESSION} /usr/local/lib/hotdesk/tint2rc /usr/local/lib/hotdesk"
    assert await lines(desk, asked) == ["755 0", "644 0", "755 0"]


async def test_fonts_stand_in_for_what_offices_and_scripts_need(desk: Desk) -> None:
    asked = "; ".join(f"fc-match -f '%{{family[0]}}\\n' '{name}'" for name in FONTS)
    assert await lines(desk, asked) == list(FONTS.values())


async def test_no_package_in_an_image_is_under_the_agpl(desk: Desk) -> None:
    listed = f"grep -lE '{AFFERO}' */copyright || true"
    told_freely = f"grep -LE '^Format' */copyright | xargs grep -iE 'affero|agpl' | grep -v '{OF_MPL}' || true"
    told = await lines(desk, f"cd /usr/share/doc; {listed}; {told_freely}")
    assert {each.split("/")[0] for each in told} <= PERMITTED
    left = f"find {PLACES} -name Identity-UTF16-H; find /usr/lib -name 'libgs.so*'"
    assert await lines(desk, left) == []
    wheels = "grep -liE '^(License|License-Expression|Classifier: License).*(AGPL|Affero)'"
    assert await lines(desk, f"{wheels} /usr/local/lib/python3*/dist-packages/*.dist-info/METADATA || true") == []


async def test_apt_finds_no_broken_packages(desk: Desk) -> None:
    assert await lines(desk, "dpkg --audit; apt-get -qq -o Debug::NoLocking=1 check 2>&1") == []


async def test_images_stay_below_their_promised_size(settings: Config) -> None:
    assert image.find(settings.images, "office").size < 1.6e9
    assert image.find(settings.images, "desktop").size < 2.45e9


async def test_a_desktop_kept_ready_has_its_screen_up(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        host.keep_ready(Spec(image="desktop"), 1)
        with anyio.fail_after(30):
            await host.pool.wait_until_full()
        async with host.open_desk(Spec(image="desktop")) as desk:
            assert await lines(desk, "pgrep -cx Xvnc; pgrep -cx tint2") == ["1", "1"]
            shown = await lines(desk, "DISPLAY=:0 scrot /tmp/shot.png; file /tmp/shot.png")
            assert "1280 x 800" in shown[0]


@pytest.mark.long
async def test_libreoffice_recalculates_a_workbook_and_prints_it(desk: Desk) -> None:
    done = await desk.run(["python3", "-c", CONVERT], timeout=100)
    assert "42" in done.text, done


async def test_python_is_python3(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk(Spec(image="base")) as desk:
        done = await desk.run(["python", "-c", "import sys; print(sys.version_info.major)"])
        assert (done.exit_code, done.text) == (0, "3\n")
