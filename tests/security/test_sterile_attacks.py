"""Tests that what a working desk does to its image, in the cache or on the disk, does not reach verification."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image, sterile, sterilize
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Spec
from tests.security.conftest import Craft, Owning
from tests.security.guards import Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

JUDGE = "usr/local/bin/judge"
WORKING, VERIFYING = Spec(image="judged"), Spec(image="judged", sterile=True)
AFTER_AN_OOPS = """
import sys
from pathlib import Path
from hotdesk.desk.image.sterile import Sterile
from hotdesk.errors import ImageError
try:
    at = Sterile(Path(sys.argv[1]), Path(sys.argv[2])).mount(sys.argv[3], 128)
    print("mounted", (at / "usr/local/bin/judge").read_text()[:10])
except ImageError as e:
    print("refused", e)
"""


@pytest.fixture
def judged(crafted: Craft) -> Config:
    def fill(layer: Path) -> None:
        (layer / JUDGE).parent.mkdir(parents=True)
        (layer / JUDGE).write_text(
            f"echo clean\n{'#' * 10_000}\n"
        )  # longer than what is stored inline with a file system's own data

    settings = crafted("judged", fill)
    assert sterilize.make(settings.images, image.find(settings.images, "judged"), print)
    return settings


async def judge(desk: Desk) -> str:
    return (await desk.run(["sh", f"/{JUDGE}"])).text.strip()


def superblocks(settings: Config, desk: Desk) -> set[str]:
    told = state.read_facts(settings.run / "desks" / desk.id)
    assert told is not None
    lines = [line.split() for line in Path(f"/proc/{told['keeper']}/mountinfo").read_text().splitlines()]
    return {
        words[2]
        for words in lines
        if words[4].startswith(f"{settings.run}/private/{desk.id}/l") and words[4][-1].isdigit()
    }


@falls_without(
    "a copy of its own for a desk that verifies", Removal("room/rootfs.py", "self.shown.get(layer, layer)", "layer")
)
async def test_a_verifying_desk_shares_no_superblock_with_a_working_one(judged: Config, owning: Owning) -> None:
    async with owning(judged) as runtime:
        working, verifying = await runtime.open(WORKING), await runtime.open(VERIFYING)
        here, there = superblocks(judged, working), superblocks(judged, verifying)
    assert len(there) == len(image.find(judged.images, "judged").layers)
    assert here
    assert here & there == set()


@falls_without("a copy of its own for a desk that verifies")
async def test_a_verifying_desk_does_not_see_a_changed_image(judged: Config, owning: Owning) -> None:
    async with owning(judged) as runtime:
        working, verifying = await runtime.open(WORKING), await runtime.open(VERIFYING)
        assert (await judge(working), await judge(verifying)) == ("clean", "clean")
        with (image.find(judged.images, "judged").layers[0] / JUDGE).open("r+") as file:
            file.write("echo dirty\n")  # in place: the pages every working desk has cached
        assert await judge(working) == "dirty"
        assert await judge(verifying) == "clean"
        assert await judge(await runtime.open(WORKING)) == "dirty"
        assert await judge(await runtime.open(VERIFYING)) == "clean"


@falls_without(
    "a pool that knows who verifies",
    Removal("owner/pool.py", "image, spec.sterile, proven", "image, False, proven"),
    Removal("keeper/operations.py", "if request.spec.sterile != tracked.spec.sterile:", "if request.port < 0:"),
)
async def test_a_ready_working_desk_is_not_used_for_verification(judged: Config, owning: Owning) -> None:
    async with owning(judged) as runtime:
        runtime.pool.keep(WORKING, 1)
        await runtime.pool.wait_until_full()
        verifying, working = await runtime.open(VERIFYING), await runtime.open(WORKING)
        assert superblocks(judged, verifying) & superblocks(judged, working) == set()


@falls_without(
    "a look at a copy after an oops",
    Removal("image/sterile.py", "                verify(fd, file)\n", "                pass\n"),
)
def test_after_a_kernel_oops_a_modified_copy_is_refused(judged: Config, tmp_path: Path) -> None:
    layer = image.find(judged.images, "judged").layers[0].name
    file = sterile.find_copy(judged.images, layer)[0]
    place = file.read_bytes().index(b"echo clean")
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(b"echo dirty")
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", AFTER_AN_OOPS]
    done = subprocess.run(
        [*argv, str(judged.images), str(tmp_path), layer], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.startswith("refused ")
