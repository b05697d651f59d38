"""The algorithm and the config of each credit rule; importing this registers them with Ray Tune.

A rule's equations, parameters and function are in one file of `trca.algorithms.rules`, which needs
neither Ray nor PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec

from trca.common.extras import missing_training

try:
    from ray.tune.registry import register_trainable
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(missing_training() or str(error)) from error

from trca.algorithms.base.evaluation import Evaluation as Evaluation
from trca.algorithms.base.evaluation import evaluate_panel as evaluate_panel
from trca.algorithms.base.evaluation import local_runner as local_runner
from trca.algorithms.base.export import export as export
from trca.algorithms.base.text_algorithm import TextAlgorithm as TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig as TextAlgorithmConfig
from trca.algorithms.imitation.imitation import Imitation as Imitation
from trca.algorithms.imitation.imitation import ImitationConfig as ImitationConfig
from trca.algorithms.rules.beacon import BEACONParameters
from trca.algorithms.rules.dr_grpo import DrGRPOParameters
from trca.algorithms.rules.filtered_bc import FilteredBCParameters
from trca.algorithms.rules.g2po import G2POParameters
from trca.algorithms.rules.gagpo import GAGPOParameters
from trca.algorithms.rules.gigpo import GiGPOParameters
from trca.algorithms.rules.graphgpo import GraphGPOParameters
from trca.algorithms.rules.grpo import GRPOParameters
from trca.algorithms.rules.hcapo import HCAPOParameters
from trca.algorithms.rules.hgpo import HGPOParameters
from trca.algorithms.rules.hiper import HiPERParameters
from trca.algorithms.rules.igpo import IGPOParameters
from trca.algorithms.rules.reinforce_plus_plus import ReinforcePlusPlusParameters
from trca.algorithms.rules.rewardflow import RewardFlowParameters
from trca.algorithms.rules.rloo import RLOOParameters
from trca.algorithms.rules.shaped_return import ShapedReturnParameters
from trca.algorithms.rules.shaped_turn_ppo import ShapedTurnPPOParameters
from trca.algorithms.rules.stepsearch import StepSearchParameters
from trca.algorithms.rules.trca import TRCAParameters
from trca.algorithms.rules.turn_ppo import TurnPPOParameters
from trca.algorithms.settings.policy_config import S, Training

P = ParamSpec("P")

if TYPE_CHECKING:

    class RuleConfig(TextAlgorithmConfig[S], Generic[P, S]):
        """A config whose ``training`` takes the fields of its settings, for type checkers."""

        training: Training[P]  # type: ignore[assignment]  # of RLlib's arguments


def algorithm(parameters: Callable[P, S]) -> tuple[type[TextAlgorithm], type[RuleConfig[P, S]]]:
    """Makes the algorithm and the config of a credit rule.

    Args:
        parameters: The class of the rule's settings; its attribute ``algorithm`` names the classes.
    """
    made: Any = parameters
    about = str(sys.modules[made.__module__].__doc__).splitlines()[0]
    members = {"__module__": __package__, "__doc__": about}
    config: Any = type(
        f"{made.algorithm}Config",
        (TextAlgorithmConfig,),
        {**members, "training": Training(parameters)},
    )
    return type(made.algorithm, (TextAlgorithm,), members, config=config), config


TRCA, TRCAConfig = algorithm(TRCAParameters)
GRPO, GRPOConfig = algorithm(GRPOParameters)
DrGRPO, DrGRPOConfig = algorithm(DrGRPOParameters)
RLOO, RLOOConfig = algorithm(RLOOParameters)
ReinforcePlusPlus, ReinforcePlusPlusConfig = algorithm(ReinforcePlusPlusParameters)
GiGPO, GiGPOConfig = algorithm(GiGPOParameters)
HGPO, HGPOConfig = algorithm(HGPOParameters)
GraphGPO, GraphGPOConfig = algorithm(GraphGPOParameters)
RewardFlow, RewardFlowConfig = algorithm(RewardFlowParameters)
G2PO, G2POConfig = algorithm(G2POParameters)
GAGPO, GAGPOConfig = algorithm(GAGPOParameters)
IGPO, IGPOConfig = algorithm(IGPOParameters)
FilteredBC, FilteredBCConfig = algorithm(FilteredBCParameters)
HCAPO, HCAPOConfig = algorithm(HCAPOParameters)
TurnPPO, TurnPPOConfig = algorithm(TurnPPOParameters)
HiPER, HiPERConfig = algorithm(HiPERParameters)
StepSearch, StepSearchConfig = algorithm(StepSearchParameters)
BEACON, BEACONConfig = algorithm(BEACONParameters)
ShapedReturn, ShapedReturnConfig = algorithm(ShapedReturnParameters)
ShapedTurnPPO, ShapedTurnPPOConfig = algorithm(ShapedTurnPPOParameters)

ALGORITHMS: dict[str, type[TextAlgorithm]] = {
    each.__name__: each
    for each in (
        *(TRCA, GRPO, DrGRPO, RLOO, ReinforcePlusPlus, GiGPO, HGPO, GraphGPO, RewardFlow, G2PO),
        *(GAGPO, IGPO, FilteredBC, Imitation, HCAPO, TurnPPO, HiPER, StepSearch, BEACON),
        *(ShapedReturn, ShapedTurnPPO),
    )
}
"""The algorithms by the names they are registered under."""

for _name, _algorithm in ALGORITHMS.items():
    register_trainable(_name, _algorithm)
    # Checkpoints of 0.1.0 name these classes by a module per algorithm.
    _rule = f"{__package__}.{_algorithm.config_class.parameters_class.__module__.split('.')[-1]}"
    for _module in (_rule, f"{_rule}.{_rule.split('.')[-1]}"):
        sys.modules.setdefault(_module, sys.modules[__name__])
