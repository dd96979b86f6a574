import unittest
from datetime import date

from billing.months import later

YEAR = 2025


class MonthsTest(unittest.TestCase):
    def test_what_is_due_on_the_last_stays_due_on_the_last(self) -> None:
        self.assertEqual(later(date(YEAR, 1, 31), 3), date(YEAR, 4, 30))

    def test_a_day_that_every_month_has_stays_the_same(self) -> None:
        self.assertEqual(later(date(YEAR, 11, 15), 2), date(YEAR + 1, 1, 15))

    def test_the_thirtieth_stays_where_there_is_one(self) -> None:
        self.assertEqual(later(date(YEAR, 4, 30), 1), date(YEAR, 5, 30))
