"""What RLlib makes environments by: names of Ray's, of Gymnasium's and of this package."""

import pytest
from ray.tune.registry import register_env

from tests import toy
from trca.algorithms.rollouts.environments import default_split
from trca.common.registry import load_file
from trca.envs import register


class HeldOut(toy.Rooms):
    default_split = "valid"


def test_the_evaluated_split_is_the_default_of_the_environment():
    register_env("HeldOut", lambda config: HeldOut(**config))
    assert default_split("HeldOut", {"tasks": 2}) == "valid"
    assert default_split(HeldOut, {}) == "valid"
    assert default_split("alfworld", {}) == "valid_seen"


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_class_out_of_a_file_trains_by_its_id_on_a_remote_env_runner(make_config, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from tests.toy import Rooms\n\n\nclass Mine(Rooms): ...\n")
    register("test/MyRooms-v0", load_file(file).Mine)
    config = make_config(num_env_runners=1).environment("test/MyRooms-v0")
    algorithm = config.build_algo()
    try:
        assert algorithm.train()["missing_rollouts"] == 0
        assert len(algorithm.rollouts) == 16
    finally:
        algorithm.stop()
