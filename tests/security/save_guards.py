"""Which guard stops which attack of a desk's files on the image that is saved of them; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal, cases

SAVE = "test_save_attacks.py"
COPY, CONTENT, SAVING = "hotdesk/desk/image/copy.py", "hotdesk/desk/image/content.py", "hotdesk/desk/keeper/capture.py"
BENEATH = "hotdesk/linux/openat2.py"
KEPT = f"{SAVE}::test_no_attribute_with_a_meaning_outside_is_kept"

LOOKED = Removal(COPY, "os.lstat(self.at, dir_fd=self.source)", "os.stat(self.at, dir_fd=self.source)")
PLAIN = Removal(COPY, "kind in (stat.S_IFREG, stat.S_IFLNK):", "kind != stat.S_IFCHR or info.st_rdev:")
OPENED = Removal(COPY, "        if stat.S_ISREG(info.st_mode):\n", "        if not stat.S_ISLNK(info.st_mode):\n")

GUARDS_OF_SAVING: tuple[Guard, ...] = (
    Guard(
        "links that are not followed",
        (
            LOOKED,
            Removal(BENEATH, "RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV", "0"),
            Removal(BENEATH, "flags | os.O_NOFOLLOW | patient, STRICT", "flags & ~os.O_NOFOLLOW | patient, STRICT"),
        ),
        (f"{SAVE}::test_a_link_of_a_desk_brings_nothing_of_the_host",),
    ),
    Guard(
        "files that are read, and no other kind",
        (PLAIN, OPENED, Removal(BENEATH, "0 if flags & os.O_PATH else os.O_NONBLOCK", "0")),
        (f"{SAVE}::test_a_pipe_keeps_nobody_waiting", f"{SAVE}::test_a_device_does_not_become_part_of_an_image"),
    ),
    Guard(
        "modes without rights",
        (Removal(COPY, "RIGHTS = 0o6000", "RIGHTS = 0"),),
        (f"{SAVE}::test_setuid_bits_do_not_become_part_of_an_image",),
    ),
    Guard(
        "attributes by name",
        (Removal(COPY, 'if key.startswith("user.") or (key, value) == (OPAQUE, b"y"):', "if key:"),),
        cases(KEPT, "capability | redirect | metacopy | other whiteouts"),
    ),
    Guard(
        "owners of a desk's own",
        (Removal(COPY, "number if 0 <= number < 1 << 16 else NOBODY", "number"),),
        (f"{SAVE}::test_an_owner_outside_a_desks_own_is_not_kept",),
    ),
    Guard(
        "one mount",
        (Removal(BENEATH, "RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV", "RESOLVE_NO_SYMLINKS"),),
        (f"{SAVE}::test_what_is_mounted_in_a_layer_is_not_copied",),
    ),
    Guard(
        "a depth that can be cleared away",
        (Removal(COPY, "if len(self.levels) > self.limits.depth:", "if len(self.levels) > 9000:"),),
        (f"{SAVE}::test_a_deep_tree_is_refused_and_leaves_nothing",),
    ),
    Guard(
        "holes that are not read",
        (Removal(CONTENT, "            start = os.lseek(fd, start, os.SEEK_DATA)\n", "            pass\n"),),
        (f"{SAVE}::test_a_hole_of_many_terabytes_costs_nothing",),
    ),
    Guard(
        "bytes that are counted",
        (Removal(COPY, "        if self.size > self.limits.size:\n", "        if self.size < 0:\n"),),
        (f"{SAVE}::test_a_layer_larger_than_the_room_for_it_is_refused",),
    ),
    Guard(
        "names that are escaped",
        (Removal(COPY, "printable(os.fsdecode(path[-SHOWN:]))", "os.fsdecode(path[-SHOWN:])"),),
        (f"{SAVE}::test_a_name_that_steers_terminals_is_escaped_where_it_is_told",),
    ),
    Guard(
        "nothing of a desk's own self",
        (Removal(COPY, "if path is not None and self.skips(self.source, path):", "if path is None:"),),
        (f"{SAVE}::test_an_image_does_not_carry_whom_its_desk_believed_or_was",),
    ),
    Guard(
        "a digest over all layers",
        (Removal(SAVING, "*(layer.name for layer in below.layers), below.python", "below.python"),),
        (f"{SAVE}::test_bytecode_of_one_image_is_not_found_by_another",),
    ),
    Guard(
        "a whiteout for what is left out",
        (Removal(COPY, "(path is not None and not top.opaque and self.covers(self.source, path))", "False"),),
        (f"{SAVE}::test_a_file_the_desk_removed_does_not_come_back",),
    ),
)
