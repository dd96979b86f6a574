"""What the judge tries: no worker has seen it, and none of its numbers are in the repository."""

import unittest
from datetime import date

from billing.months import later
from billing.prices import price
from billing.shares import split


class UnseenTest(unittest.TestCase):
    def test_shares(self) -> None:
        for cents in range(0, 700, 7):
            for count in range(1, 12):
                shares = split(cents, count)
                self.assertEqual((sum(shares), len(shares)), (cents, count))
                self.assertLessEqual(max(shares) - min(shares), 1)

    def test_months(self) -> None:
        self.assertEqual(later(date(2024, 1, 31), 1), date(2024, 2, 29))
        self.assertEqual(later(date(2023, 8, 31), 6), date(2024, 2, 29))
        self.assertEqual(later(date(2023, 3, 29), 12), date(2024, 3, 29))
        self.assertEqual(later(date(2023, 10, 30), 1), date(2023, 11, 30))

    def test_prices(self) -> None:
        steps = ((4, 90), (9, 70), (50, 20))
        one_by_one = [90] * 4 + [70] * 5 + [20] * 41
        for pieces in range(51):
            self.assertEqual(price(pieces, steps), sum(one_by_one[:pieces]))
