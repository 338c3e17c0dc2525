"""What turns cost."""

from datetime import date
from pathlib import Path

import pytest

from perdure.llm.prices import BadPrices, Price, built_in, cost_usd, read_overrides
from perdure.llm.protocol import Usage

PRICES = {
    "openai/m": Price(2.0, 8.0, cache_read=0.5),
    "anthropic/m": Price(3.0, 15.0, cache_read=0.3, cache_write=3.75),
}
MILLION = 1_000_000


def test_openai_counts_cached_tokens_among_the_input() -> None:
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION, cache_read_tokens=MILLION // 2)

    assert cost_usd("openai", "m", usage, PRICES) == pytest.approx(1.0 + 0.25 + 8.0)


def test_anthropic_counts_cached_tokens_apart() -> None:
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION, cache_read_tokens=MILLION, cache_write_tokens=MILLION)

    assert cost_usd("anthropic", "m", usage, PRICES) == pytest.approx(3.0 + 15.0 + 0.3 + 3.75)


def test_a_model_without_a_price_costs_unknown_and_not_nothing() -> None:
    assert cost_usd("openai", "gtp-5", Usage(input_tokens=1, output_tokens=1)) is None


@pytest.mark.parametrize("usage", [None, Usage(), Usage(input_tokens=1), Usage(output_tokens=1)])
def test_counts_that_were_not_reported_cost_unknown(usage: Usage | None) -> None:
    assert cost_usd("openai", "m", usage, PRICES) is None


@pytest.mark.parametrize("name", ["gpt-5", "gpt-5-2025-08-07"])
def test_the_dated_form_has_the_price_of_the_name(name: str) -> None:
    assert cost_usd("openai", name, Usage(input_tokens=MILLION, output_tokens=0)) == pytest.approx(1.25)


def test_a_smaller_model_does_not_get_the_price_of_a_name_that_begins_alike() -> None:
    assert cost_usd("openai", "gpt-5-tiny", Usage(input_tokens=1, output_tokens=1)) is None


def test_the_local_model_costs_nothing() -> None:
    assert cost_usd("local", "smollm2-135m-instruct", Usage(input_tokens=9, output_tokens=9)) == 0.0


def test_the_table_has_its_date_and_no_price_below_zero() -> None:
    assert date.fromisoformat(built_in().date).year >= 2025
    assert min(min(each.input, each.output) for each in built_in().prices.values()) >= 0


def test_own_prices_beat_the_table(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(
        '{"openai/gpt-5": {"input": 1, "output": 2}, "openai-compatible/*": {"input": 0, "output": 0}}'
    )
    own = read_overrides(str(tmp_path / "prices.json"))

    assert cost_usd("openai", "gpt-5", Usage(input_tokens=MILLION, output_tokens=0), own) == pytest.approx(1.0)
    assert cost_usd("openai-compatible", "qwen3", Usage(input_tokens=MILLION, output_tokens=1), own) == 0.0
    assert read_overrides(str(tmp_path / "none.json")) == {}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"m": {"input": 1}}', '{"m": {"input": -1, "output": 1}}', '{"m": {"in": 1}}', "\udcff"]
)
def test_own_prices_that_cannot_be_used_are_refused_with_their_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(BadPrices, match=r"prices\.json"):
        read_overrides(str(path))
