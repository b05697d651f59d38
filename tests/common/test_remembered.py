"""A cache of texts keeps only short texts, so its memory is bounded."""

from trca.common.remembered import remembered


def counting(entries, longest):
    """A cached function and the texts of its calls."""
    calls = []

    @remembered(entries, longest)
    def size(text):
        calls.append(text)
        return len(text)

    return size, calls


def test_a_short_text_is_computed_once_and_a_long_text_every_time():
    size, calls = counting(entries=10, longest=3)
    assert [size("abc"), size("abc"), size("abcd"), size("abcd")] == [3, 3, 4, 4]
    assert calls == ["abc", "abcd", "abcd"]


def test_the_texts_used_last_are_kept():
    size, calls = counting(entries=2, longest=3)
    for text in ("a", "b", "a", "c", "a", "b"):
        size(text)
    assert calls == ["a", "b", "c", "b"]
