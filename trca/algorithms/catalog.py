"""The config and the algorithm of each credit rule; importing this registers them with Ray Tune.

A rule's equations, parameters and function are in one file of `trca.algorithms.rules`, which needs
neither Ray nor PyTorch.
"""

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
from trca.algorithms.base.text_config import Training
from trca.algorithms.credit.inputs.plans import lacks_plan
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


class TRCAConfig(TextAlgorithmConfig[TRCAParameters]):
    """Config of TRCA; the defaults are the paper's."""

    training = Training(TRCAParameters)


class TRCA(TextAlgorithm, config=TRCAConfig):
    """Transition-wise rubric credit assignment."""


class GRPOConfig(TextAlgorithmConfig[GRPOParameters]):
    """Config of GRPO under the paper's common settings."""

    training = Training(GRPOParameters)


class GRPO(TextAlgorithm, config=GRPOConfig):
    """Group-relative policy optimization."""


class DrGRPOConfig(TextAlgorithmConfig[DrGRPOParameters]):
    """Config of Dr. GRPO under the paper's common settings."""

    training = Training(DrGRPOParameters)


class DrGRPO(TextAlgorithm, config=DrGRPOConfig):
    """GRPO done right: no standard deviation, no division by length."""


class RLOOConfig(TextAlgorithmConfig[RLOOParameters]):
    """Config of RLOO under the paper's common settings."""

    training = Training(RLOOParameters)


class RLOO(TextAlgorithm, config=RLOOConfig):
    """REINFORCE with a leave-one-out baseline."""


class ReinforcePlusPlusConfig(TextAlgorithmConfig[ReinforcePlusPlusParameters]):
    """Config of REINFORCE++ under the paper's common settings."""

    training = Training(ReinforcePlusPlusParameters)


class ReinforcePlusPlus(TextAlgorithm, config=ReinforcePlusPlusConfig):
    """REINFORCE with normalisation over the batch."""


class GiGPOConfig(TextAlgorithmConfig[GiGPOParameters]):
    """Config of GiGPO under the paper's common settings."""

    training = Training(GiGPOParameters)


class GiGPO(TextAlgorithm, config=GiGPOConfig):
    """Group-in-group policy optimization."""


class HGPOConfig(TextAlgorithmConfig[HGPOParameters]):
    """Config of HGPO under the paper's common settings."""

    training = Training(HGPOParameters)


class HGPO(TextAlgorithm, config=HGPOConfig):
    """Hierarchy-of-groups policy optimization."""


class GraphGPOConfig(TextAlgorithmConfig[GraphGPOParameters]):
    """Config of GraphGPO under the paper's common settings."""

    training = Training(GraphGPOParameters)


class GraphGPO(TextAlgorithm, config=GraphGPOConfig):
    """Graph-based group policy optimization."""


class RewardFlowConfig(TextAlgorithmConfig[RewardFlowParameters]):
    """Config of RewardFlow under the paper's common settings."""

    training = Training(RewardFlowParameters)


class RewardFlow(TextAlgorithm, config=RewardFlowConfig):
    """Group credit from values that flow back through a graph of states."""


class G2POConfig(TextAlgorithmConfig[G2POParameters]):
    """Config of G2PO under the paper's common settings."""

    training = Training(G2POParameters)


class G2PO(TextAlgorithm, config=G2POConfig):
    """Group-graph policy optimization."""


class GAGPOConfig(TextAlgorithmConfig[GAGPOParameters]):
    """Config of GAGPO under the paper's common settings."""

    training = Training(GAGPOParameters)


class GAGPO(TextAlgorithm, config=GAGPOConfig):
    """Generalized advantage grouped policy optimization."""


class IGPOConfig(TextAlgorithmConfig[IGPOParameters]):
    """Config of IGPO under the paper's common settings."""

    training = Training(IGPOParameters)


class IGPO(TextAlgorithm, config=IGPOConfig):
    """Information gain-based policy optimization."""


class FilteredBCConfig(TextAlgorithmConfig[FilteredBCParameters]):
    """Config of filtered behaviour cloning under the paper's common settings."""

    training = Training(FilteredBCParameters)


class FilteredBC(TextAlgorithm, config=FilteredBCConfig):
    """Filtered behaviour cloning."""


class HCAPOConfig(TextAlgorithmConfig[HCAPOParameters]):
    """Config of HCAPO under the paper's common settings."""

    training = Training(HCAPOParameters)


class HCAPO(TextAlgorithm, config=HCAPOConfig):
    """Hindsight credit assignment policy optimization."""


class TurnPPOConfig(TextAlgorithmConfig[TurnPPOParameters]):
    """Config of TurnPPO under the paper's common settings."""

    training = Training(TurnPPOParameters)

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        level = self.settings.ratio_level
        if self.settings.gae == "bi_level" and level != "token":
            raise ValueError(
                f"gae is 'bi_level' and ratio_level is {level!r}: each token has an advantage, so"
                " set ratio_level to token"
            )
        super().validate()


class TurnPPO(TextAlgorithm, config=TurnPPOConfig):
    """Proximal policy optimization over turns, with a critic."""


class HiPERConfig(TextAlgorithmConfig[HiPERParameters]):
    """Config of HiPER under the paper's common settings; responses have a plan."""

    training = Training(HiPERParameters)
    value_heads = 3

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        if lack := lacks_plan(self.settings.response_format):
            raise ValueError(f"HiPER credits switches, subgoals and actions, and {lack}")
        if self.settings.ratio_level != "token":
            raise ValueError(
                f"HiPER gives each token an advantage of its own and ratio_level is"
                f" {self.settings.ratio_level!r}: set ratio_level to token"
            )
        super().validate()


class HiPER(TextAlgorithm, config=HiPERConfig):
    """Hierarchical plan-execute RL: one advantage for switches, subgoals and actions each."""


class StepSearchConfig(TurnPPOConfig):
    """Config of StepSearch under the paper's common settings."""

    training = Training(StepSearchParameters)


class StepSearch(TextAlgorithm, config=StepSearchConfig):
    """Step-wise proximal policy optimization of search agents."""


class BEACONConfig(TextAlgorithmConfig[BEACONParameters]):
    """Config of BEACON under the paper's common settings."""

    training = Training(BEACONParameters)

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: If ``milestones: environment`` meets a team: a message has no milestone.
        """
        super().validate()
        if self.roles and self.settings.milestones == "environment":
            raise ValueError(
                "milestones is 'environment', and a message of a team completes none: set"
                " milestones to execution, or leave env_config.team out"
            )


class BEACON(TextAlgorithm, config=BEACONConfig):
    """Milestone-guided policy optimization."""


class ShapedReturnConfig(TextAlgorithmConfig[ShapedReturnParameters]):
    """Config of ShapedReturn under the paper's common settings."""

    training = Training(ShapedReturnParameters)


class ShapedReturn(TextAlgorithm, config=ShapedReturnConfig):
    """Group-relative optimization of the outcome plus the rubric rewards."""


class ShapedTurnPPOConfig(TurnPPOConfig):
    """Config of ShapedTurnPPO under the paper's common settings."""

    training = Training(ShapedTurnPPOParameters)


class ShapedTurnPPO(TextAlgorithm, config=ShapedTurnPPOConfig):
    """Turn-level proximal policy optimization with potential-based shaping."""


ALGORITHMS: dict[str, type[TextAlgorithm]] = {
    algorithm.config_class.parameters_class.algorithm: algorithm
    for algorithm in (
        TRCA,
        GRPO,
        DrGRPO,
        RLOO,
        ReinforcePlusPlus,
        GiGPO,
        HGPO,
        GraphGPO,
        RewardFlow,
        G2PO,
        GAGPO,
        IGPO,
        FilteredBC,
        Imitation,
        HCAPO,
        TurnPPO,
        HiPER,
        StepSearch,
        BEACON,
        ShapedReturn,
        ShapedTurnPPO,
    )
}
"""The algorithms by the names they are registered under."""

for _name, _algorithm in ALGORITHMS.items():
    register_trainable(_name, _algorithm)
    # Checkpoints of 0.1.0 name these classes by a module per algorithm.
    _rule = f"{__package__}.{_algorithm.config_class.parameters_class.__module__.split('.')[-1]}"
    for _module in (_rule, f"{_rule}.{_rule.split('.')[-1]}"):
        sys.modules.setdefault(_module, sys.modules[__name__])
