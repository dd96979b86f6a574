"""Amounts of money, as people write them."""


def cents(text: str) -> int:
    """Read an amount as cents.

    >>> cents("1,234.50")
    123450
    >>> cents("0.5")
    50
    """
    whole, _, part = text.replace(",", "").partition(".")
    return int(whole) * 100 + int(part or 0)
