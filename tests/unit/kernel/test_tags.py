"""Mutex tags: what they look like, and which exclude each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.capacity.tags import BadTag, conflicting, parse_tags

PATHS = st.lists(st.sampled_from(["a", "ab", "b", "use-computer"]), min_size=1, max_size=4)


@given(PATHS, PATHS)
def test_tags_conflict_when_one_is_the_other_or_lies_in_it(one: list[str], other: list[str]) -> None:
    shorter = min(len(one), len(other))
    expected = one[:shorter] == other[:shorter]

    assert (conflicting([":".join(one)], [":".join(other)]) is not None) == expected


@given(st.lists(PATHS, max_size=3), st.lists(PATHS, max_size=3))
def test_a_conflict_is_one_from_both_sides(one: list[list[str]], other: list[list[str]]) -> None:
    left, right = [":".join(each) for each in one], [":".join(each) for each in other]

    assert (conflicting(left, right) is None) == (conflicting(right, left) is None)


@given(st.lists(PATHS, max_size=4))
def test_a_list_of_tags_is_read_as_it_was_written(paths: list[list[str]]) -> None:
    tags = [":".join(path) for path in paths]

    assert parse_tags(" , ".join(tags)) == tuple(dict.fromkeys(tags))


@pytest.mark.parametrize("text", ["a b", ":a", "a:", "a::b", "1a", "a:-b", "a.b", "ä", "a;b", "a\n:b"])
def test_what_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(BadTag, match="no mutex tag"):
        parse_tags(text)
