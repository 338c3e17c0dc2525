import unittest

from shop.discount import discounted, total


class Discount(unittest.TestCase):
    def test_a_tenth_off(self) -> None:
        self.assertEqual(discounted(1000, 10), 900)

    def test_nothing_off(self) -> None:
        self.assertEqual(discounted(1000, 0), 1000)

    def test_three_things_get_the_discount(self) -> None:
        self.assertEqual(total([100, 100, 100], 50), 150)

    def test_two_things_do_not(self) -> None:
        self.assertEqual(total([100, 100], 50), 200)


if __name__ == "__main__":
    unittest.main()
