"""What turns cost: a table of prices, a date, and a way to say otherwise. A model without a price costs "unknown", never nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec

from perdure.base.errors import Refused
from perdure.llm.protocol import Usage

# How the input is counted: with what was read from a cache (and written to it), or without.
_WITHOUT_CACHE = ("anthropic",)
_SNAPSHOT = re.compile(r"-\d{4}-?\d\d-?\d\d$")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens. None of a cache's prices is "as input"."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class PriceTable(msgspec.Struct, frozen=True):
    """Prices by `backend/model`, and the day (YYYY-MM-DD) when they were looked up."""

    date: str
    note: str
    prices: dict[str, Price]


class BadPrices(Refused):
    """A file of prices cannot be used."""

    code = "bad_prices"


@cache
def built_in() -> PriceTable:
    """The table that comes with Perdure."""
    from importlib.resources import files

    return msgspec.json.decode(files("perdure.llm").joinpath("prices.json").read_bytes(), type=PriceTable)


def read_overrides(path: str) -> dict[str, Price]:
    """The person's own prices, `{"backend/model": {"input": 1.0, "output": 2.0}}`; empty when there is no file. Raises `BadPrices`."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadPrices(f"{path} cannot be read: {error.strerror}.", hint="Give read access, or remove it.") from error
    try:
        found = msgspec.json.decode(content, type=dict[str, Price])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadPrices(
            f"{path} cannot be used: {error}.", hint="docs/reference/backend-models.md shows the format."
        ) from error
    for name, price in found.items():
        if any(
            value is not None and value < 0
            for value in (price.input, price.output, price.cache_read, price.cache_write)
        ):
            raise BadPrices(
                f"{path}: {name} has a price below zero.", hint="Prices are US dollars for a million tokens."
            )
    return found


def find_price(backend: str, model: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """The price of a model; the dated form of a name has the price of the name. None when nobody said one."""
    names = [f"{backend}/{model}", f"{backend}/{_SNAPSHOT.sub('', model)}", f"{backend}/*"]
    for table in (overrides or {}, built_in().prices):
        for name in names:
            if name in table:
                return table[name]
    return None


def cost_usd(
    backend: str, model: str, usage: Usage | None, overrides: Mapping[str, Price] | None = None
) -> float | None:
    """What a turn cost in US dollars; None when the price or the counts of input or output are not known. What is free costs 0 also
    where nothing was counted."""
    price = find_price(backend, model, overrides)
    if price is not None and not any((price.input, price.output, price.cache_read, price.cache_write)):
        return 0.0
    if price is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    fresh = usage.input_tokens if backend in _WITHOUT_CACHE else max(0, usage.input_tokens - read - written)
    total = (
        fresh * price.input
        + read * (price.input if price.cache_read is None else price.cache_read)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + usage.output_tokens * price.output
    )
    return total / 1_000_000
