"""Sorted strings in arrays: each string has its number, and unknown strings have none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.retrieval import storage
from trca.envs.retrieval.storage import SortedStrings, encoded


@pytest.mark.parametrize("marks", [1, 3, 4096])
@given(st.sets(st.text(min_size=1, max_size=4)), st.text(max_size=4))
def test_terms_are_found_under_their_numbers(marks, terms, other):
    spelled = sorted(map(encoded, terms))
    letters = np.frombuffer(b"".join(spelled), dtype=np.uint8)
    ends = np.cumsum([len(each) for each in spelled], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_MARKS", marks)
        stored_terms = SortedStrings(letters, ends)
    assert list(map(stored_terms.find, spelled)) == list(range(len(spelled)))
    assert (stored_terms.find(encoded(other)) is None) == (other not in terms)
    assert list(stored_terms) == stored_terms[:] == spelled
