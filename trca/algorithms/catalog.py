"""All algorithms; importing this module registers them with Ray Tune."""

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
from trca.algorithms.beacon.beacon import BEACON as BEACON
from trca.algorithms.beacon.beacon import BEACONConfig as BEACONConfig
from trca.algorithms.dr_grpo.dr_grpo import DrGRPO as DrGRPO
from trca.algorithms.dr_grpo.dr_grpo import DrGRPOConfig as DrGRPOConfig
from trca.algorithms.filtered_bc.filtered_bc import FilteredBC as FilteredBC
from trca.algorithms.filtered_bc.filtered_bc import FilteredBCConfig as FilteredBCConfig
from trca.algorithms.g2po.g2po import G2PO as G2PO
from trca.algorithms.g2po.g2po import G2POConfig as G2POConfig
from trca.algorithms.gagpo.gagpo import GAGPO as GAGPO
from trca.algorithms.gagpo.gagpo import GAGPOConfig as GAGPOConfig
from trca.algorithms.gigpo.gigpo import GiGPO as GiGPO
from trca.algorithms.gigpo.gigpo import GiGPOConfig as GiGPOConfig
from trca.algorithms.graphgpo.graphgpo import GraphGPO as GraphGPO
from trca.algorithms.graphgpo.graphgpo import GraphGPOConfig as GraphGPOConfig
from trca.algorithms.grpo.grpo import GRPO as GRPO
from trca.algorithms.grpo.grpo import GRPOConfig as GRPOConfig
from trca.algorithms.hcapo.hcapo import HCAPO as HCAPO
from trca.algorithms.hcapo.hcapo import HCAPOConfig as HCAPOConfig
from trca.algorithms.hgpo.hgpo import HGPO as HGPO
from trca.algorithms.hgpo.hgpo import HGPOConfig as HGPOConfig
from trca.algorithms.hiper.hiper import HiPER as HiPER
from trca.algorithms.hiper.hiper import HiPERConfig as HiPERConfig
from trca.algorithms.igpo.igpo import IGPO as IGPO
from trca.algorithms.igpo.igpo import IGPOConfig as IGPOConfig
from trca.algorithms.imitation.imitation import Imitation as Imitation
from trca.algorithms.imitation.imitation import ImitationConfig as ImitationConfig
from trca.algorithms.reinforce_plus_plus.reinforce_plus_plus import (
    ReinforcePlusPlus as ReinforcePlusPlus,
)
from trca.algorithms.reinforce_plus_plus.reinforce_plus_plus import (
    ReinforcePlusPlusConfig as ReinforcePlusPlusConfig,
)
from trca.algorithms.rewardflow.rewardflow import RewardFlow as RewardFlow
from trca.algorithms.rewardflow.rewardflow import RewardFlowConfig as RewardFlowConfig
from trca.algorithms.rloo.rloo import RLOO as RLOO
from trca.algorithms.rloo.rloo import RLOOConfig as RLOOConfig
from trca.algorithms.shaped_return.shaped_return import ShapedReturn as ShapedReturn
from trca.algorithms.shaped_return.shaped_return import ShapedReturnConfig as ShapedReturnConfig
from trca.algorithms.shaped_turn_ppo.shaped_turn_ppo import ShapedTurnPPO as ShapedTurnPPO
from trca.algorithms.shaped_turn_ppo.shaped_turn_ppo import (
    ShapedTurnPPOConfig as ShapedTurnPPOConfig,
)
from trca.algorithms.stepsearch.stepsearch import StepSearch as StepSearch
from trca.algorithms.stepsearch.stepsearch import StepSearchConfig as StepSearchConfig
from trca.algorithms.trca.trca import TRCA as TRCA
from trca.algorithms.trca.trca import TRCAConfig as TRCAConfig
from trca.algorithms.turn_ppo.turn_ppo import TurnPPO as TurnPPO
from trca.algorithms.turn_ppo.turn_ppo import TurnPPOConfig as TurnPPOConfig

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
