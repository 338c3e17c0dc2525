"""Prices after discounts, in cents."""


def discounted(price: int, percent: int) -> int:
    """The price less so many percent, rounded down to a whole cent. Percentages are from 0 to 100."""
    return price - price * percent


def total(prices: list[int], percent: int) -> int:
    """What a basket costs: the discount holds from three things on."""
    discount = percent if len(prices) > 3 else 0
    return sum(discounted(price, discount) for price in prices)
