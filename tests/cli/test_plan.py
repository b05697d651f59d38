from trca.cli.plan import Shape, memory
from trca.tune_configs.settings import RunSettings

SHAPE = Shape(
    parameters=10**9, layers=24, hidden=2048, feed_forward=8192, key_values=256, vocabulary=150_000
)


def needs(**settings):
    base = {"env_config": {"games": "small"}, "model": "tiny", "dtype": "bfloat16"}
    return memory(RunSettings.resolve({**base, **settings}), SHAPE)


def test_weights_on_their_way_are_a_copy_in_the_engines_precision_and_one_in_the_object_store():
    assert needs()["weights, on their way"] == 2 * 10**9
    assert needs(dtype="float32")["weights, on their way"] == 4 * 10**9
    assert needs(num_env_runners=2)["weights, on their way"] == 4 * 10**9


def test_several_learners_need_a_bucket_and_no_second_copy_of_the_gradients():
    assert needs(num_learners=1)["gradient buckets"] == 0
    assert needs(num_learners=2)["gradient buckets"] == 32 * 2**20
