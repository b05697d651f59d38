"""A model sharded over two processes: shards, gathered layers and precision of gradients."""

import pytest
import torch
from torch.distributed.tensor import DTensor

from tests.architectures import save_model
from tests.processes import together
from trca.policies.logits import score_tokens
from trca.policies.models import load_model
from trca.policies.sharding import gathered, set_gradient_sync, shard

PLACE = (torch.tensor([0, 0, 1]), torch.tensor([3, 5, 4]), torch.tensor([7, 8, 9]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("model"), "qwen3"))


def pass_of(rank):
    """The tokens of a process in a pass."""
    return torch.arange(16).reshape(2, 8) + 5 * rank, *PLACE


def whole(model):
    """Names of the parameters that this process holds completely."""
    return {name for name, each in model.named_parameters() if not isinstance(each, DTensor)}


def test_a_layer_is_gathered_only_while_it_computes(folder, tmp_path):
    def act(rank):
        model = load_model(folder)
        shard(model, "cpu", mixed=False)
        inside = []
        for layer in model.base_model.layers:
            layer.mlp.register_forward_pre_hook(lambda *_: inside.append(whole(model)))
        with torch.no_grad():
            model.score_tokens(*pass_of(rank), vocabulary=64)
        after_scoring = whole(model)
        logprobs, _ = model.score_tokens(*pass_of(rank), vocabulary=64)
        after_forward = whole(model)
        logprobs.sum().backward()
        return inside, after_scoring, after_forward, whole(model)

    for inside, *after in together(act, 2, tmp_path):
        assert after == [set()] * 3
        layers = [{name.split("layers.")[1][0] for name in w if "layers." in name} for w in inside]
        assert layers == [{"0"}, {"1"}] * 2


@pytest.mark.parametrize("passes", [1, 2])
def test_gradients_of_bfloat16_passes_are_added_up_in_float32(folder, tmp_path, passes):
    def act(rank):
        model, alone = load_model(folder, "float32"), load_model(folder, "bfloat16")
        shard(model, "cpu", mixed=True)
        sums = dict.fromkeys(dict(model.named_parameters()), 0.0)
        for number in range(passes):
            tokens = pass_of(rank + 2 * number)
            score_tokens(alone, *tokens, vocabulary=64)[0].sum().backward()
            for name, each in alone.named_parameters():
                sums[name] += each.grad.float()
            alone.zero_grad()
            set_gradient_sync(model, number == passes - 1)
            model.score_tokens(*tokens, vocabulary=64)[0].sum().backward()
            assert not whole(model)
        return sums, {name: gathered(each.grad) for name, each in model.named_parameters()}

    (of_first, added), (of_second, _) = together(act, 2, tmp_path)
    for name in added:
        assert torch.equal(added[name], of_first[name] + of_second[name]), name
    assert not all(torch.equal(each, each.bfloat16().float()) for each in added.values())
