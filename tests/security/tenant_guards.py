"""Which guard stops which attack of one tenant on another; as in `guards.py`."""

from __future__ import annotations

from tests.security.guards import Guard, Removal
from tests.security.test_tenant_attacks import BY_ID as OPERATIONS

TENANT = "test_tenant_attacks.py::test_"
BY_ID = f"{TENANT}an_id_of_anothers_is_answered_as_one_that_never_was"
ORDER = f"{TENANT}an_order_that_names_what_is_anothers_is_answered_as_if_it_never_was"
LIST = f"{TENANT}a_list_that_is_asked_for_by_what_is_anothers_is_as_if_it_never_was"
STATE = Removal(
    "hotdesk/api/tenants.py",
    "        settings = settings_of(self.settings, name)\n",
    "        settings = self.settings\n",
)
HELD = tuple(" ".join(each) for each in OPERATIONS if "{key}" not in each[1])
LISTED = ("a chain", "a prefix", *(f"after {name}" for name in ("desk", "job", "id", "path", "name")))
GUARDS_OF_TENANTS: tuple[Guard, ...] = (
    Guard("a tenant's state is its own, by any id", (STATE,), tuple(f"{BY_ID}[{case}]" for case in HELD)),
    Guard(
        "a tenant's state is its own, in orders and lists", (STATE,), (ORDER, *(f"{LIST}[{case}]" for case in LISTED))
    ),
    Guard(
        "whose keys there are",
        (
            Removal(
                "hotdesk/api/native/access/keys.py",
                "        if each.tenant == asked.tenant.name\n",
                "        if each.tenant\n",
            ),
        ),
        (f"{BY_ID}[DELETE /keys/{{key}}]", f"{LIST}[after key]"),
    ),
    Guard(
        "whose an Idempotency-Key is",
        (
            Removal(
                "hotdesk/api/native/access/auth.py",
                "store.once(caller.tenant, key, body, work, (caller.key, act))\n",
                'store.once("", key, body, work, ("", act))\n',
            ),
        ),
        (f"{TENANT}an_idempotency_key_of_anothers_gives_nothing_of_theirs",),
    ),
)
NO_GUARD_OF_TENANTS = {
    f"{TENANT}every_operation_with_an_id_is_attacked": "it reads the table of attacks, and takes nothing out",
}
