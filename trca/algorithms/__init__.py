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

from trca.algorithms.dr_grpo import DrGRPO, DrGRPOConfig
from trca.algorithms.evaluation import Evaluation, evaluate_panel, local_runner
from trca.algorithms.export import export
from trca.algorithms.filtered_bc import FilteredBC, FilteredBCConfig
from trca.algorithms.g2po import G2PO, G2POConfig
from trca.algorithms.gagpo import GAGPO, GAGPOConfig
from trca.algorithms.gigpo import GiGPO, GiGPOConfig
from trca.algorithms.graphgpo import GraphGPO, GraphGPOConfig
from trca.algorithms.grpo import GRPO, GRPOConfig
from trca.algorithms.hcapo import HCAPO, HCAPOConfig
from trca.algorithms.hgpo import HGPO, HGPOConfig
from trca.algorithms.hiper import HiPER, HiPERConfig
from trca.algorithms.igpo import IGPO, IGPOConfig
from trca.algorithms.reinforce_plus_plus import ReinforcePlusPlus, ReinforcePlusPlusConfig
from trca.algorithms.rewardflow import RewardFlow, RewardFlowConfig
from trca.algorithms.rloo import RLOO, RLOOConfig
from trca.algorithms.stepsearch import StepSearch, StepSearchConfig
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig
from trca.algorithms.trca import TRCA, TRCAConfig
from trca.algorithms.turn_ppo import TurnPPO, TurnPPOConfig

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
