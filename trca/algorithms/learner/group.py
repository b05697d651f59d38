"""`TextLearnerGroup`: RLlib's group of learners, which survives the loss of a learner.

Where this differs from RLlib's group, for remote learners:

===================  ===============================================================================
A lost learner       RLlib marks all learners unhealthy and returns empty results afterwards. Here
                     the group builds its learners again from the module spec, restores the state
                     after the last update, and learns from the same rows again.
Other errors         Raised immediately, although other learners may still wait for the failed
                     learner; RLlib waits for all learners.
Sharded learners     All learners take part in every read of their state; RLlib asks one learner.
                     The learners save and load shards; see `trca.algorithms.learner.checkpoint`.
Saving and loading   An error is raised; RLlib drops it and leaves an empty checkpoint.
===================  ===============================================================================
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import ObjectLostError, RayActorError
from ray.rllib.core import COMPONENT_LEARNER
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.checkpoints import Checkpointable
from ray.tune.utils.file_transfer import sync_dir_between_nodes

from trca.algorithms.learner.rows import scored_rows, segments
from trca.algorithms.learner.saving import SHARDS
from trca.algorithms.settings.policy_config import PolicyConfig

logger = logging.getLogger(__name__)

T = TypeVar("T")
_PATIENCE_S: Final = 10.0
"""Seconds that the other learners have to fail too, after the first failure."""


class LearnersLostError(RuntimeError):
    """Learners were lost for good; another start continues from the last checkpoint."""


class _LostLearner(Exception):  # noqa: N818
    """The process of a learner ended."""


class TextLearnerGroup(LearnerGroup):
    """The learners of a text algorithm; see the module.

    Attributes:
        rebuilt: Number of times that the group built its learners again.
    """

    config: PolicyConfig
    _learner: Any
    _workers: Any
    _backend_executor: Any

    def __init__(self, **kwargs: Any) -> None:
        """Takes the arguments of `LearnerGroup`."""
        self.rebuilt = 0
        self._made_with = kwargs
        self._kept: list[Any] = []
        self._saving = False
        super().__init__(**kwargs)

    def update(
        self,
        *,
        batch: Any = None,
        batches: Any = (),
        timesteps: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Updates all learners.

        Args:
            batch: `Rows` of a learner in this process.
            batches: `Rows` of each remote learner.
            timesteps: RLlib's counters.
            kwargs: More arguments of `TextLearner.update`.

        Returns:
            The metrics of each learner.

        Raises:
            RuntimeError: When the losses of learners exceed ``max_learner_restarts``.
        """
        if self.is_local:
            metrics: list[Any] = super().update(batch=batch, timesteps=timesteps, **kwargs)
            return metrics

        def learn() -> list[Any]:
            results = self._on_all(
                "update",
                [
                    {"training_data": TrainingData(batch=rows), "timesteps": timesteps, **kwargs}
                    for rows in batches
                ],
            )
            self._keep_state()
            return results

        return self._surviving(learn)

    def ask(self, method: str, **given: Any) -> list[Any]:
        """Calls a method of each learner, and returns the results.

        Args:
            method: A method of `TextLearner`.
            given: The arguments of the method.
        """
        if self.is_local:
            return [getattr(self._learner, method)(**given)]
        return self._surviving(lambda: self._on_all(method, [given] * len(self._workers)))

    def score(
        self,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        reference: bool = False,
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """Log-probabilities of responses after prompts, by the policy's present weights.

        Args:
            prompts: int32 (P,) each.
            responses: int32 (R,) each.
            reference: Whether the frozen reference scores instead of the policy.
            given: ``module_id`` of the policy, if there are several policies.

        Returns:
            float32 (R,) for each response.
        """
        return self._of_tokens("score_rows", prompts, responses, reference=reference, **given)

    def values(
        self,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """The critic's values of the text before each response token.

        Args:
            prompts: int32 (P,) each.
            responses: int32 (R,) each.
            given: ``module_id`` of the policy, if there are several policies.

        Returns:
            float32 (R, H) for each response; the first is the value of the prompt.
        """
        return self._of_tokens("value_rows", prompts, responses, **given)

    def of(self, *module_ids: str) -> Any:
        """Binds `score` and `values` to the policy that acted for an agent.

        Args:
            module_ids: The ids of the policies that acted. The bound methods refuse several.
        """
        return _BoundLearners(self, module_ids)

    def _of_tokens(
        self,
        method: str,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """Calls a method for response tokens; each remote learner takes a share."""
        if not responses:
            return []
        rows = scored_rows(prompts, responses)
        if self.is_local:
            flat = getattr(self._learner, method)(rows, **given)
        else:
            shards = rows.shards(len(self._workers))
            arguments = [{"rows": shard, **given} for shard in shards]
            parts = self._surviving(lambda: self._on_all(method, arguments))
            flat = np.zeros((len(rows.action), *parts[0].shape[1:]), dtype=np.float32)
            for shard, part in zip(shards, parts, strict=True):
                flat[segments(rows.response_lengths, shard.number)] = part
        return np.split(flat, np.cumsum(rows.response_lengths)[:-1])

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Returns the state of the first learner, which equals the state of all learners.

        Raises:
            RuntimeError: When the state of sharded learners has more components than the weights.
        """
        if self.is_local:
            local: dict[str, Any] = super().get_state(
                components, not_components=not_components, **kwargs
            )
            return local
        if not self._check_component(COMPONENT_LEARNER, components, not_components):
            return {}
        if self._saving and self.config.settings.sharding != "none":
            return {COMPONENT_LEARNER: {}}
        below: Any = self._get_subcomponents
        asked = {
            "components": below(COMPONENT_LEARNER, components),
            "not_components": below(COMPONENT_LEARNER, not_components),
            **kwargs,
        }
        count = len(self._workers) if self.config.settings.sharding != "none" else 1
        states = self._surviving(lambda: self._on_all("get_state", [asked] * count))
        return {COMPONENT_LEARNER: states[0]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state on all learners."""
        if self.is_local:
            super().set_state(state)
        elif COMPONENT_LEARNER in state:
            given = {"state": ray.put(state[COMPONENT_LEARNER])}
            self._on_all("set_state", [given] * len(self._workers))
            self._keep_state()

    def get_checkpointable_components(self) -> list[tuple[str, Checkpointable]]:
        """Returns the local learner, or a proxy of the remote learners."""
        return [(COMPONENT_LEARNER, self._learner if self.is_local else _Remote(self))]

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Leaves the shares out of `get_state`: sharded learners write them in `save_to_path`."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def _keep_state(self) -> None:
        """Stores the learners' state in Ray's object store, which outlives the learners.

        Learners that are not sharded have equal states: the first learner's state is enough.
        """
        if not self.config.settings.max_learner_restarts:
            return
        asked = self._workers if self.config.settings.sharding != "none" else self._workers[:1]
        calls = [worker.snapshot.options(num_returns=2).remote() for worker in asked]
        self._results([taken for taken, _ in calls])
        self._kept = [snapshot for _, snapshot in calls]

    def _on_all(self, method: str, arguments: Sequence[dict[str, Any]]) -> list[Any]:
        """Calls a method of the first learners; ``arguments`` has the arguments of each learner.

        Raises:
            _LostLearner: When a learner's process ended.
        """
        pairs = zip(self._workers, arguments, strict=False)
        return self._results([getattr(w, method).remote(**given) for w, given in pairs])

    def _results(self, calls: list[Any]) -> list[Any]:
        """Returns the results of calls, or raises an error, that of a lost learner first."""
        pending = list(calls)
        while pending:
            (done,), pending = ray.wait(pending, num_returns=1)
            try:
                ray.get(done)
            except RayActorError as error:
                raise _LostLearner(str(error)) from error
            except Exception:
                self._look_for_lost(pending)
                raise
        return list(ray.get(calls))

    def _look_for_lost(self, calls: list[Any]) -> None:
        if not calls:
            return
        for call in ray.wait(calls, num_returns=len(calls), timeout=_PATIENCE_S)[0]:
            try:
                ray.get(call)
            except RayActorError as error:
                raise _LostLearner(str(error)) from error
            except Exception as error:
                logger.debug("another learner failed too: %s", error)

    def _surviving(self, act: Callable[[], T]) -> T:
        while True:
            try:
                return act()
            except _LostLearner as lost:
                reason = str(lost).strip().splitlines()[0]
                if self.rebuilt >= self.config.settings.max_learner_restarts:
                    raise LearnersLostError(
                        f"a learner was lost: {reason} (max_learner_restarts is"
                        f" {self.config.settings.max_learner_restarts}). Resume the run from"
                        " its last checkpoint"
                    ) from lost
                logger.warning("a learner was lost and the group is built again: %s", reason)
            with suppress(_LostLearner):
                self._build_again()

    def _build_again(self) -> None:
        for worker in self._workers:
            ray.kill(worker)
        executor = self._backend_executor
        executor._placement_group = (
            None  # the algorithm owns the group, and the next learners use it
        )
        executor.shutdown(graceful_termination=False)
        kept, rebuilt = self._kept, self.rebuilt + 1
        self.rebuilt = rebuilt
        super().__init__(**self._made_with)
        if kept:
            given = kept if len(kept) > 1 else kept * len(self._workers)
            try:
                self._on_all("resume", [{"snapshot": of_one} for of_one in given])
            except ObjectLostError as error:
                raise LearnersLostError(
                    "a learner was lost with its node, which held the copy of the learners' state:"
                    " resume the run from its last checkpoint"
                ) from error


class _BoundLearners:
    """Methods of the learners, bound to the policy that acted for an agent."""

    def __init__(self, group: TextLearnerGroup, module_ids: tuple[str, ...]) -> None:
        self._group, self._module_ids = group, module_ids

    def score(self, *args: Any, **kwargs: Any) -> list[NDArray[np.float32]]:
        """See `TextLearnerGroup.score`.

        Raises:
            ValueError: When several policies acted, since one policy must score.
        """
        return self._group.score(*args, **kwargs, module_id=self._only("log-probabilities"))

    def values(self, *args: Any, **kwargs: Any) -> list[NDArray[np.float32]]:
        """See `TextLearnerGroup.values`.

        Raises:
            ValueError: When several policies acted, since one critic must answer.
        """
        return self._group.values(*args, **kwargs, module_id=self._only("values"))

    def _only(self, what: str) -> str:
        if len(self._module_ids) > 1:
            raise ValueError(
                f"the credit rule reads {what} of the policy that acted, and"
                f" {' and '.join(self._module_ids)} acted for one agent: let policy_mapping_fn give"
                " an agent the same policy in every group"
            )
        return self._module_ids[0]


class _Remote(Checkpointable):
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
                group._on_all("apply", [{"func": partial(_remove, folder=draft)}])
        return folder

    def restore_from_path(self, path: Any, *, component: Any = None, **kwargs: Any) -> None:
        """Loads on all learners."""
        given = {"path": str(path), "component": component, "node": _node(), **kwargs}
        self._group._on_all("restore_from_node", [given] * len(self._group))
        self._group._keep_state()

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns nothing: `save_to_path` asks the learners."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Sets nothing."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns nothing."""
        return (), {}


def _remove(learner: Any, folder: str) -> None:
    shutil.rmtree(folder)


def _node(learner: Any = None) -> str:
    return str(ray.util.get_node_ip_address())
