"""Algorithms for language models in text environments; importing this registers them with Ray Tune.

::

    import trca.algorithms
    from ray import tune

    tune.Tuner("TRCA", param_space={"env": "trca/ALFWorld-v0", "lr": 4e-4}).fit()
"""

from trca.common.extras import missing_training

try:
    from ray.tune.registry import register_trainable
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(missing_training() or str(error)) from error

from trca.algorithms.base.evaluation import Evaluation, evaluate_panel, local_runner
from trca.algorithms.base.export import export
from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.dr_grpo.dr_grpo import DrGRPO, DrGRPOConfig
from trca.algorithms.filtered_bc.filtered_bc import FilteredBC, FilteredBCConfig
from trca.algorithms.g2po.g2po import G2PO, G2POConfig
from trca.algorithms.gagpo.gagpo import GAGPO, GAGPOConfig
from trca.algorithms.gigpo.gigpo import GiGPO, GiGPOConfig
from trca.algorithms.graphgpo.graphgpo import GraphGPO, GraphGPOConfig
from trca.algorithms.grpo.grpo import GRPO, GRPOConfig
from trca.algorithms.hcapo.hcapo import HCAPO, HCAPOConfig
from trca.algorithms.hgpo.hgpo import HGPO, HGPOConfig
from trca.algorithms.hiper.hiper import HiPER, HiPERConfig
from trca.algorithms.igpo.igpo import IGPO, IGPOConfig
from trca.algorithms.reinforce_plus_plus.reinforce_plus_plus import (
    ReinforcePlusPlus,
    ReinforcePlusPlusConfig,
)
from trca.algorithms.rewardflow.rewardflow import RewardFlow, RewardFlowConfig
from trca.algorithms.rloo.rloo import RLOO, RLOOConfig
from trca.algorithms.stepsearch.stepsearch import StepSearch, StepSearchConfig
from trca.algorithms.trca.trca import TRCA, TRCAConfig
from trca.algorithms.turn_ppo.turn_ppo import TurnPPO, TurnPPOConfig

__all__ = [
    "ALGORITHMS",
    "G2PO",
    "GAGPO",
    "GRPO",
    "HCAPO",
    "HGPO",
    "IGPO",
    "RLOO",
    "TRCA",
    "DrGRPO",
    "DrGRPOConfig",
    "Evaluation",
    "FilteredBC",
    "FilteredBCConfig",
    "G2POConfig",
    "GAGPOConfig",
    "GRPOConfig",
    "GiGPO",
    "GiGPOConfig",
    "GraphGPO",
    "GraphGPOConfig",
    "HCAPOConfig",
    "HGPOConfig",
    "HiPER",
    "HiPERConfig",
    "IGPOConfig",
    "RLOOConfig",
    "ReinforcePlusPlus",
    "ReinforcePlusPlusConfig",
    "RewardFlow",
    "RewardFlowConfig",
    "StepSearch",
    "StepSearchConfig",
    "TRCAConfig",
    "TextAlgorithm",
    "TextAlgorithmConfig",
    "TurnPPO",
    "TurnPPOConfig",
    "evaluate_panel",
    "export",
    "local_runner",
]

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
        HCAPO,
        TurnPPO,
        HiPER,
        StepSearch,
    )
}
"""The algorithms by the names they are registered under."""

for _name, _algorithm in ALGORITHMS.items():
    register_trainable(_name, _algorithm)
