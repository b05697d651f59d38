"""`TextLearnerGroup`: RLlib's group of learners, which reports the loss of a learner.

Where this differs from RLlib's group, for remote learners:

===================  ===============================================================================
A lost learner       RLlib marks all learners unhealthy and returns empty results afterwards. Here
                     a lost learner ends the run with an error, and the run resumes from its last
                     checkpoint: ``trca train`` and the trials of a sweep by themselves, an
                     experiment of Ray Tune with ``FailureConfig(max_failures=...)``.
Other errors         Raised immediately, although other learners may still wait for the failed
                     learner; RLlib waits for all learners.
Sharded learners     All learners take part in every read of their state; RLlib asks one learner.
                     The learners save and load shards; see `trca.algorithms.learner.checkpoint`.
Saving and loading   An error is raised; RLlib drops it and leaves an empty checkpoint.
===================  ===============================================================================
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError
from ray.rllib.core import COMPONENT_LEARNER
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.learner.training_data import TrainingData
from ray.tune.utils.file_transfer import sync_dir_between_nodes

from trca.algorithms.learner.learner import SHARDS
from trca.algorithms.learner.rows import scored_rows, segments
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.common.errors import first_line

_PATIENCE_S: Final = 60.0
"""Seconds that the other learners have to fail too, after the first failure."""


class LearnersLostError(RuntimeError):
    """The process of a learner ended; the run resumes from its last checkpoint."""


class TextLearnerGroup(LearnerGroup):
    """The learners of a text algorithm; see the module."""

    config: PolicyConfig
    _learner: Any
    _workers: Any
    _backend_executor: Any

    def __init__(self, **kwargs: Any) -> None:
        """Takes the arguments of `LearnerGroup`."""
        self._saving = False
        super().__init__(**kwargs)

    def update(self, *, batches: Sequence[Any], **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Updates all learners, each on its `Rows`, and returns the metrics of each.

        Raises:
            LearnersLostError: When the process of a learner ended.
        """
        data = [{"training_data": TrainingData(batch=rows), **kwargs} for rows in batches]
        return self._on_all("update", data)

    def ask(self, method: str, **given: Any) -> list[Any]:
        """Calls a method of each learner with these arguments, and returns the results."""
        return self._on_all(method, [given] * max(1, len(self)))

    def score(
        self,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        reference: bool = False,
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """Log-probabilities of responses after prompts, float32 (R,) each, by the present weights.

        Prompts and responses are int32 (P,) and (R,). ``reference`` scores with the frozen
        reference. With several policies ``module_id`` names one.
        """
        return self._of_tokens("score_rows", prompts, responses, reference=reference, **given)

    def values(
        self,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """The critic's values before each response token, float32 (R, H); takes what `score` takes.

        The first value of a response is the value of the prompt.
        """
        return self._of_tokens("value_rows", prompts, responses, **given)

    def of(self, *module_ids: str) -> Any:
        """Binds `score` and `values` to the policy that acted for an agent.

        The bound methods raise a `ValueError` for several policies, since one policy must score.
        """

        def bind(method: Callable[..., Any], what: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if len(module_ids) > 1:
                    raise ValueError(
                        f"the credit rule reads {what} of the policy that acted, and"
                        f" {' and '.join(module_ids)} acted for one agent: let policy_mapping_fn"
                        " give an agent the same policy in every group"
                    )
                return method(*args, **kwargs, module_id=module_ids[0])

            return call

        return SimpleNamespace(
            score=bind(self.score, "log-probabilities"), values=bind(self.values, "values")
        )

    def _of_tokens(
        self,
        method: str,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """Calls a method for response tokens; each learner takes a share."""
        if not responses:
            return []
        rows = scored_rows(prompts, responses)
        shards = rows.shards(max(1, len(self)))
        parts = self._on_all(method, [{"rows": shard, **given} for shard in shards])
        flat = np.zeros((len(rows.action_mask), *parts[0].shape[1:]), dtype=np.float32)
        for shard, part in zip(shards, parts, strict=True):
            flat[segments(rows.response_lengths, shard.number)] = part
        return np.split(flat, np.cumsum(rows.response_lengths)[:-1])

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Returns the state of the first learner, which equals the state of all learners."""
        if not self._check_component(COMPONENT_LEARNER, components, not_components):
            return {}
        if self._saving and not self.is_local:
            return {COMPONENT_LEARNER: {}}
        below: Any = self._get_subcomponents
        asked = {
            "components": below(COMPONENT_LEARNER, components),
            "not_components": below(COMPONENT_LEARNER, not_components),
            **kwargs,
        }
        count = 1 if self.config.settings.sharding == "none" else max(1, len(self))
        return {COMPONENT_LEARNER: self._on_all("get_state", [asked] * count)[0]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state on all learners."""
        if COMPONENT_LEARNER in state:
            of_learner = state[COMPONENT_LEARNER]
            self.ask("set_state", state=of_learner if self.is_local else ray.put(of_learner))

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Returns the local learner, or a proxy of the remote learners."""
        return [(COMPONENT_LEARNER, self._learner if self.is_local else _Remote(self))]

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Leaves remote learners out of `get_state`: they write their state in `save_to_path`."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def _on_all(self, method: str, arguments: Sequence[dict[str, Any]]) -> list[Any]:
        """Calls a method of the first learners, each with its arguments.

        Raises an error immediately. Learners that wait for a lost learner may fail before Ray
        reports the loss, so that after another error the loss has some seconds to appear.
        """
        if self.is_local:
            return [getattr(self._learner, method)(**arguments[0])]
        pairs = zip(self._workers, arguments, strict=False)
        calls = [getattr(worker, method).remote(**given) for worker, given in pairs]
        pending, patience, first = calls, None, None
        while pending:
            done, pending = ray.wait(pending, num_returns=1, timeout=patience)
            if not done:
                break
            try:
                ray.get(done)
            except RayActorError as lost:
                reason = first_line(lost).rstrip(".")
                raise LearnersLostError(
                    f"a learner was lost: {reason}. Resume the run from its last checkpoint: trca"
                    " train --resume RUN, or in Ray Tune FailureConfig(max_failures=1)"
                ) from lost
            except Exception as error:
                first, patience = first or error, _PATIENCE_S
        if first is not None:
            raise first
        return list(ray.get(calls))


class _Remote:
    """The remote learners of a group, as a component that RLlib saves and loads."""

    def __init__(self, group: TextLearnerGroup) -> None:
        self._group = group

    def save_to_path(self, path: Any = None, *, state: Any = None, **kwargs: Any) -> str:
        """Saves all sharded learners to a path that all nodes see, or one unsharded learner."""
        group, folder = self._group, str(path)
        if group.config.settings.sharding != "none":
            group._on_all("save_shards", [{"path": folder}] * len(group))
            shares = {path.name.split("_")[2] for path in Path(folder, SHARDS).glob("__*_*.distcp")}
            if len(shares) < len(group):
                raise RuntimeError(
                    f"{folder} has the shares of {len(shares)} of {len(group)} learners: with"
                    " sharding on several nodes, name a folder in --storage-path that all nodes see"
                )
            return folder
        here, (there,) = _node(), group._on_all("apply", [{"func": _node}])
        if here == there:
            group._on_all("save_to_path", [{"path": folder, **kwargs}])
        else:
            (draft,) = group._on_all("save_to_path", [{}])
            try:
                sync_dir_between_nodes(there, draft, here, folder)
            finally:
                group._on_all("apply", [{"func": lambda _: shutil.rmtree(draft)}])
        return folder

    def restore_from_path(self, path: Any, *, component: Any = None, **kwargs: Any) -> None:
        """Loads on all learners."""
        given = {"path": str(path), "component": component, "node": _node(), **kwargs}
        self._group._on_all("restore_from_node", [given] * len(self._group))


def _node(learner: Any = None) -> str:
    return str(ray.util.get_node_ip_address())
