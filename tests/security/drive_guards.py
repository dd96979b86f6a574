"""Which guard stops which attack on the drive; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

DRIVE = "test_drive_attacks.py"
KEEP, BLOBS, CATALOG = "hotdesk/drive/keep.py", "hotdesk/drive/blobs.py", "hotdesk/drive/catalog.py"
IDENTITY, OUT = "hotdesk/drive/identity.py", "hotdesk/job/results.py"
CHANGED = f"{DRIVE}::test_bytes_that_were_changed_on_disk_are_not_given"
PLANTED = f"{DRIVE}::test_a_link_planted_where_copies_go_is_not_followed"
KILLED = f"{DRIVE}::test_killed_at_any_point_it_loses_no_version_and_breaks_nothing"
HASH = Removal(BLOBS, "        if left or digest.hexdigest() != sha256:\n", "        if left > size:\n")
LOOK = Removal(OUT, "LOOK = os.O_RDONLY | os.O_NOFOLLOW | ", "LOOK = os.O_RDONLY | ")

GUARDS_OF_DRIVE: tuple[Guard, ...] = (
    Guard(
        "names of the drive",
        (Removal("hotdesk/drive/names.py", "    if why := fault(name):\n", '    if why := "":\n'),),
        (f"{DRIVE}::test_no_name_leads_out_of_the_drive_or_shows_as_another",),
    ),
    Guard(
        "names that are for somebody",
        (
            Removal(
                IDENTITY,
                "    return may_write(who, owner) or any(each in (who, EVERYBODY) for each in readers)\n",
                "    return True\n",
            ),
        ),
        (
            f"{DRIVE}::test_another_users_name_is_no_name",
            f"{DRIVE}::test_nobody_learns_by_writing_what_others_have",
        ),
    ),
    Guard(
        "one's own names first",
        (Removal(CATALOG, "        if who in owners:\n", "        if not owners:\n"),),
        (f"{DRIVE}::test_a_shared_name_does_not_stand_for_ones_own",),
    ),
    Guard(
        "rights by what the kernel says",
        (Removal(IDENTITY, 'f"uid:{os.geteuid()}"\n\n', '"uid:" + os.environ.get("SUDO_UID", "")\n\n'),),
        (f"{DRIVE}::test_the_environment_gives_no_rights",),
    ),
    Guard("bytes held against their hash", (HASH,), cases(CHANGED, "other bytes | fewer | more")),
    Guard(
        "no links among the blobs",
        (
            Removal(
                BLOBS, "os.open(sha256, private_files.READ, dir_fd=place)", "os.open(sha256, os.O_RDONLY, dir_fd=place)"
            ),
        ),
        (f"{CHANGED}[a link]",),
    ),
    Guard(
        "plain files among the blobs",
        (HASH, Removal(BLOBS, "            if not stat.S_ISREG(os.fstat(fd).st_mode):\n", "            if fd < 0:\n")),
        (f"{CHANGED}[a pipe]",),
    ),
    Guard(
        "no links on the way out",
        (
            Removal(
                OUT,
                "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | ",
                "FOLDER = os.O_RDONLY | os.O_DIRECTORY | ",
            ),
        ),
        cases(PLANTED, "the folder | above the folder | a folder in it"),
    ),
    Guard("no links in place of a copy", (LOOK,), (f"{PLANTED}[the file]",)),
    Guard(
        "names that are new",
        (LOOK, Removal(OUT, "                self.name_first(spare)\n", "                self.name_instead(spare)\n")),
        (f"{PLANTED}[a file that is not there]",),
    ),
    Guard(
        "copies by the right of the folder's owner",
        (Removal(OUT, "    if uid == 0:\n", "    if uid >= 0:\n"),),
        (
            f"{DRIVE}::test_root_makes_nothing_where_the_folders_owner_could_not",
            f"{DRIVE}::test_copies_belong_to_the_folders_owner_and_are_no_programs",
        ),
    ),
    Guard(
        "only copies are replaced",
        (Removal(OUT, "                if not (there and known(there)):\n", "                if not there:\n"),),
        (f"{DRIVE}::test_a_file_that_is_nobodys_copy_is_not_written_over",),
    ),
    Guard(
        "a quota judged where a version is added",
        (Removal(KEEP, "            self.require_room(db, owner, staged.sha256, staged.size)\n", ""),),
        (f"{DRIVE}::test_a_quota_that_eight_processes_race_for_holds",),
    ),
    Guard(
        "sweeps that take their turn",
        (
            Removal(
                KEEP,
                "        with self.catalog.writing() as db:\n            proofs = ",
                "        with self.catalog.reading() as db:\n            proofs = ",
            ),
        ),
        (f"{DRIVE}::test_a_sweep_takes_nothing_that_is_just_being_kept",),
    ),
    Guard(
        "a quota judged while bytes come in",
        (Removal(BLOBS, "            if size > limit:\n", "            if size > 16 << 20:\n"),),
        (f"{DRIVE}::test_what_is_read_while_it_comes_in_stops_at_the_quota",),
    ),
    Guard(
        "bytes before their name",
        (
            Removal(KEEP, "            self.blobs.admit(staged)\n", ""),
            Removal(
                KEEP,
                "            intent(version)\n        return version\n",
                '            intent(version)\n            db.execute("COMMIT")\n'
                '            self.blobs.admit(staged)\n            db.execute("BEGIN IMMEDIATE")\n'
                "        return version\n",
            ),
        ),
        (f"{KILLED}[1]",),
    ),
)
NO_GUARD_OF_DRIVE = {
    f"{CHANGED}[gone]": "a control: there is nothing that could be given",
    f"{KILLED}[11]": "a sample of the points in the case that tries all of them",
}
