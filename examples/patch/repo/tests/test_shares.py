import unittest

from billing.shares import split

CENTS, COUNT = 1000, 7


class SharesTest(unittest.TestCase):
    def test_shares_add_up_to_the_sum(self) -> None:
        self.assertEqual(sum(split(CENTS, COUNT)), CENTS)

    def test_no_share_is_more_than_a_cent_larger_than_another(self) -> None:
        shares = split(CENTS, COUNT)
        self.assertLessEqual(max(shares) - min(shares), 1)

    def test_there_is_a_share_for_each(self) -> None:
        self.assertEqual(len(split(CENTS, COUNT)), COUNT)
