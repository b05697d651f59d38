"""Transfer of weights: copies, names, shapes, tied tensors and bfloat16."""

import numpy as np
import pytest
import torch
from torch import nn

from trca.policies.weights import export_weights, import_weights


def tied():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    return model


def test_imported_weights_equal_the_exported_and_tied_weights_appear_once():
    sender, receiver = tied(), tied()
    with torch.no_grad():
        receiver[0].weight.zero_()
    state = export_weights(sender)
    assert list(state) == ["0.weight"]
    import_weights(receiver, state)
    assert torch.equal(receiver[1].weight, sender[0].weight)
    assert receiver[0].weight is receiver[1].weight


def test_exported_weights_do_not_change_with_the_model():
    model = tied()
    state = export_weights(model)
    before = state["0.weight"].copy()
    with torch.no_grad():
        model[0].weight.add_(1.0)
    np.testing.assert_array_equal(state["0.weight"], before)


def test_bfloat16_is_exported_as_its_bits():
    sender, receiver = nn.Linear(3, 2).bfloat16(), nn.Linear(3, 2).bfloat16()
    state = export_weights(sender)
    assert {array.dtype for array in state.values()} == {np.dtype(np.uint16)}
    import_weights(receiver, state)
    assert torch.equal(receiver.weight, sender.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("bias"), "missing bias; unknown none"),
        (lambda s: s.update(scale=s["bias"]), "missing none; unknown scale"),
        (lambda s: s.update(bias=np.zeros(3, np.float32)), r"bias \(3,\) for \(2,\)"),
    ],
)
def test_weights_that_do_not_fit_are_named_and_change_nothing(change, message):
    model = nn.Linear(3, 2)
    before = export_weights(model)
    state = {name: array * 2 for name, array in before.items()}
    change(state)
    with pytest.raises(ValueError, match=message):
        import_weights(model, state)
    for name, array in export_weights(model).items():
        np.testing.assert_array_equal(array, before[name])
