"""Tests of where a volume may be mounted."""

from __future__ import annotations

import pytest

from hotdesk.desk.seam import Spec
from hotdesk.desk.volume.paths import MAX_VOLUMES, check_mounts
from hotdesk.errors import BriefError

ID = "i" + "a" * 20


@pytest.mark.parametrize("path", ["/data", "/home/user/data", "/mnt/with blank", "/mnt/über", "/home/user", "/opt/usr"])
def test_a_volume_is_mounted_beside_the_system(path: str) -> None:
    assert Spec(volumes={path: ID}).volumes == {path: ID}


@pytest.mark.parametrize(
    "path",
    ["/", "", "data", "//data", "/data/", "/data//x", "/data/../etc", "/./data", "/data\n", "/data\0", "/a:b",
     "/proc", "/proc/1/root", "/sys", "/dev/shm", "/run/hotdesk", "/etc", "/usr/local", "/lib64", "/bin", "/boot",
     "/" + "x" * 129, "/x" * 17, "/data\u202e"],
)  # fmt: skip
def test_no_volume_hides_a_part_of_the_wall_or_of_the_system(path: str) -> None:
    with pytest.raises(BriefError):
        check_mounts({path: ID})


def test_volumes_cannot_be_nested() -> None:
    check_mounts({"/data": ID, "/data2": ID})
    with pytest.raises(BriefError, match="is inside"):
        check_mounts({"/data/inner": ID, "/data": ID})


def test_a_volume_is_named_by_its_id_and_their_number_is_limited() -> None:
    with pytest.raises(BriefError, match="is not the id of a volume"):
        check_mounts({"/data": "../../etc"})
    with pytest.raises(BriefError, match="at most"):
        check_mounts({f"/v{number}": ID for number in range(MAX_VOLUMES + 1)})
