import unittest

from billing.prices import price

STEPS = ((10, 500), (100, 400), (1000, 300))


class PricesTest(unittest.TestCase):
    def test_only_further_pieces_are_cheaper(self) -> None:
        (first, one), (_, two), _ = STEPS
        self.assertEqual(price(first + 5, STEPS), first * one + 5 * two)

    def test_few_pieces_cost_the_first_price(self) -> None:
        self.assertEqual(price(3, STEPS), 3 * STEPS[0][1])

    def test_a_step_s_last_piece_costs_its_price(self) -> None:
        (first, one), *_ = STEPS
        self.assertEqual(price(first, STEPS), first * one)

    def test_nothing_costs_nothing(self) -> None:
        self.assertEqual(price(0, STEPS), 0)
