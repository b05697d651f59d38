from hypothesis import given
from hypothesis import strategies as st

from trca.algorithms.rollouts.batch import derive_seed

keys = st.lists(st.integers(-(2**70), 2**70) | st.text(max_size=5), min_size=1, max_size=5)


def test_a_seed_is_the_same_in_every_process():
    assert derive_seed(1, "training", 2) == derive_seed(1, "training", 2)
    assert derive_seed(0) == 4246866556266386882


def test_keys_of_the_same_digits_have_other_seeds():
    """Rollout 23 of group 1, and rollout 3 of group 12."""
    assert derive_seed("training", 7, 1, 23) != derive_seed("training", 7, 12, 3)


@given(keys, keys)
def test_other_keys_have_other_seeds(one, other):
    assert (derive_seed(*one) == derive_seed(*other)) == (one == other)
    assert 0 <= derive_seed(*one) < 2**63
