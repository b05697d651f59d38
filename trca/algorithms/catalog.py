"""The algorithm and the config of each credit rule; importing this registers them with Ray Tune.

A rule's equations, parameters and function are in one file of `trca.algorithms.rules`, which needs
neither Ray nor PyTorch. `Training` gives the classes of a rule the first line of that file.
"""

# mypy: disable-error-code="assignment"
# ruff: noqa: D101

from __future__ import annotations

import sys

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
from trca.algorithms.imitation import Imitation as Imitation
from trca.algorithms.imitation import ImitationConfig as ImitationConfig
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
from trca.algorithms.rules.turn_credit import TurnCreditParameters
from trca.algorithms.rules.turn_ppo import TurnPPOParameters
from trca.algorithms.settings.policy_config import Training


# fmt: off
class TRCAConfig(TextAlgorithmConfig[TRCAParameters]):
    training = Training(TRCAParameters)
class TRCA(TextAlgorithm, config=TRCAConfig): ...
class GRPOConfig(TextAlgorithmConfig[GRPOParameters]):
    training = Training(GRPOParameters)
class GRPO(TextAlgorithm, config=GRPOConfig): ...
class DrGRPOConfig(TextAlgorithmConfig[DrGRPOParameters]):
    training = Training(DrGRPOParameters)
class DrGRPO(TextAlgorithm, config=DrGRPOConfig): ...
class RLOOConfig(TextAlgorithmConfig[RLOOParameters]):
    training = Training(RLOOParameters)
class RLOO(TextAlgorithm, config=RLOOConfig): ...
class ReinforcePlusPlusConfig(TextAlgorithmConfig[ReinforcePlusPlusParameters]):
    training = Training(ReinforcePlusPlusParameters)
class ReinforcePlusPlus(TextAlgorithm, config=ReinforcePlusPlusConfig): ...
class GiGPOConfig(TextAlgorithmConfig[GiGPOParameters]):
    training = Training(GiGPOParameters)
class GiGPO(TextAlgorithm, config=GiGPOConfig): ...
class HGPOConfig(TextAlgorithmConfig[HGPOParameters]):
    training = Training(HGPOParameters)
class HGPO(TextAlgorithm, config=HGPOConfig): ...
class GraphGPOConfig(TextAlgorithmConfig[GraphGPOParameters]):
    training = Training(GraphGPOParameters)
class GraphGPO(TextAlgorithm, config=GraphGPOConfig): ...
class RewardFlowConfig(TextAlgorithmConfig[RewardFlowParameters]):
    training = Training(RewardFlowParameters)
class RewardFlow(TextAlgorithm, config=RewardFlowConfig): ...
class G2POConfig(TextAlgorithmConfig[G2POParameters]):
    training = Training(G2POParameters)
class G2PO(TextAlgorithm, config=G2POConfig): ...
class GAGPOConfig(TextAlgorithmConfig[GAGPOParameters]):
    training = Training(GAGPOParameters)
class GAGPO(TextAlgorithm, config=GAGPOConfig): ...
class IGPOConfig(TextAlgorithmConfig[IGPOParameters]):
    training = Training(IGPOParameters)
class IGPO(TextAlgorithm, config=IGPOConfig): ...
class FilteredBCConfig(TextAlgorithmConfig[FilteredBCParameters]):
    training = Training(FilteredBCParameters)
class FilteredBC(TextAlgorithm, config=FilteredBCConfig): ...
class HCAPOConfig(TextAlgorithmConfig[HCAPOParameters]):
    training = Training(HCAPOParameters)
class HCAPO(TextAlgorithm, config=HCAPOConfig): ...
class TurnPPOConfig(TextAlgorithmConfig[TurnPPOParameters]):
    training = Training(TurnPPOParameters)
class TurnPPO(TextAlgorithm, config=TurnPPOConfig): ...
class HiPERConfig(TextAlgorithmConfig[HiPERParameters]):
    training = Training(HiPERParameters)
class HiPER(TextAlgorithm, config=HiPERConfig): ...
class StepSearchConfig(TextAlgorithmConfig[StepSearchParameters]):
    training = Training(StepSearchParameters)
class StepSearch(TextAlgorithm, config=StepSearchConfig): ...
class BEACONConfig(TextAlgorithmConfig[BEACONParameters]):
    training = Training(BEACONParameters)
class BEACON(TextAlgorithm, config=BEACONConfig): ...
class ShapedReturnConfig(TextAlgorithmConfig[ShapedReturnParameters]):
    training = Training(ShapedReturnParameters)
class ShapedReturn(TextAlgorithm, config=ShapedReturnConfig): ...
class ShapedTurnPPOConfig(TextAlgorithmConfig[ShapedTurnPPOParameters]):
    training = Training(ShapedTurnPPOParameters)
class ShapedTurnPPO(TextAlgorithm, config=ShapedTurnPPOConfig): ...
class TurnCreditConfig(TextAlgorithmConfig[TurnCreditParameters]):
    training = Training(TurnCreditParameters)
class TurnCredit(TextAlgorithm, config=TurnCreditConfig): ...
# fmt: on

ALGORITHMS: dict[str, type[TextAlgorithm]] = {
    each.__name__: each
    for each in (
        *(TRCA, GRPO, DrGRPO, RLOO, ReinforcePlusPlus, GiGPO, HGPO, GraphGPO, RewardFlow, G2PO),
        *(GAGPO, IGPO, FilteredBC, Imitation, HCAPO, TurnPPO, HiPER, StepSearch, BEACON),
        *(ShapedReturn, ShapedTurnPPO, TurnCredit),
    )
}
"""The algorithms by the names they are registered under."""

_here = sys.modules[__name__]
for _name, _algorithm in ALGORITHMS.items():
    register_trainable(_name, _algorithm)
    # Checkpoints of earlier versions name these classes by a module per algorithm.
    _rule = f"{__package__}.{_algorithm.config_class.parameters_class.__module__.split('.')[-1]}"
    for _module in (_rule, f"{_rule}.{_rule.split('.')[-1]}"):
        sys.modules.setdefault(_module, _here)
sys.modules[f"{Imitation.__module__}.env_runner"] = sys.modules[Imitation.__module__]
