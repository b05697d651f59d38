"""What RLlib makes environments by: names of Ray's, of Gymnasium's and of this package."""

from ray.tune.registry import register_env

from tests import toy
from trca.algorithms.environments import default_split


class HeldOut(toy.Rooms):
    default_split = "valid"


def test_the_evaluated_split_is_the_default_of_the_environment():
    register_env("HeldOut", lambda config: HeldOut(**config))
    assert default_split("HeldOut", {"tasks": 2}) == "valid"
    assert default_split(HeldOut, {}) == "valid"
    assert default_split("alfworld", {}) == "valid_seen"
