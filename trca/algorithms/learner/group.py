"""`TextLearnerGroup`: RLlib's group of learners, that survives the loss of one.

Where this differs from RLlib's group, for learners in processes of their own:

===================  ===============================================================================
A lost learner       RLlib marks all learners unhealthy and returns empty results from then on. Here
                     the group is built again from its module spec, takes the state it had after its
                     last update, and learns from the same rows again.
Other errors         Raised at once, while the other learners may still wait for the one that
                     failed; RLlib waits for them.
Sharded learners     All take part in every read of their state; RLlib asks one of them. They save
                     and load shards; see `trca.algorithms.learner.checkpoint`.
Saving and loading   An error is raised; RLlib drops it and leaves an empty checkpoint.
===================  ===============================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from trca.algorithms.settings.policy_config import PolicyConfig

logger = logging.getLogger(__name__)

T = TypeVar("T")
_PATIENCE_S: Final = 10.0
"""How long the other learners have to fail too, once one has."""


class _LostLearner(Exception):  # noqa: N818
    """A learner's process is gone."""


class TextLearnerGroup(LearnerGroup):
    """The learners of a text algorithm; see the module.

    Attributes:
        rebuilt: How many times the group was built again.
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
            batches: `Rows` of each learner elsewhere.
            timesteps: RLlib's counters.
            kwargs: More arguments of `TextLearner.update`.

        Returns:
            The metrics of each learner.

        Raises:
            RuntimeError: When learners are lost more often than ``max_learner_restarts``.
        """
        if self.is_local:
            found: list[Any] = super().update(batch=batch, timesteps=timesteps, **kwargs)
            return found

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
        """What each learner answers.

        Args:
            method: A method of `TextLearner`.
            given: Its arguments.
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
            reference: Whether the frozen reference scores instead.
            given: ``module_id`` of the policy, where there are several.

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
            given: ``module_id`` of the policy, where there are several.

        Returns:
            float32 (R, H) for each response; the first is the value of the prompt.
        """
        return self._of_tokens("value_rows", prompts, responses, **given)

    def of(self, *module_ids: str) -> Any:
        """These learners as one policy's: `score` and `values` ask that one, and refuse several.

        Args:
            module_ids: The ids of the policies that acted for an agent.
        """
        return _OfModules(self, module_ids)

    def _of_tokens(
        self,
        method: str,
        prompts: Sequence[NDArray[np.int32]],
        responses: Sequence[NDArray[np.int32]],
        **given: Any,
    ) -> list[NDArray[np.float32]]:
        """What a method of the learners says of response tokens, each learner of its share."""
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
        """Returns the state of the first learner, which is that of all.

        Raises:
            RuntimeError: When sharded learners are asked for more than their weights.
        """
        if self.is_local:
            local: dict[str, Any] = super().get_state(
                components, not_components=not_components, **kwargs
            )
            return local
        if not self._check_component(COMPONENT_LEARNER, components, not_components):
            return {}
        if self._saving and self.config.sharding != "none":
            return {COMPONENT_LEARNER: {}}
        below: Any = self._get_subcomponents
        asked = {
            "components": below(COMPONENT_LEARNER, components),
            "not_components": below(COMPONENT_LEARNER, not_components),
            **kwargs,
        }
        count = len(self._workers) if self.config.sharding != "none" else 1
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
        """Returns the learner, or what stands for all of them."""
        return [(COMPONENT_LEARNER, self._learner if self.is_local else _Remote(self))]

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Lets sharded learners keep their state to themselves: `save_to_path` writes it."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def _keep_state(self) -> None:
        """Lets learners put what they learned where it outlives them: Ray's object store.

        Learners that are not sharded have the same state; the first one's is kept.
        """
        if not self.config.max_learner_restarts:
            return
        asked = self._workers if self.config.sharding != "none" else self._workers[:1]
        calls = [worker.snapshot.options(num_returns=2).remote() for worker in asked]
        self._results([taken for taken, _ in calls])
        self._kept = [snapshot for _, snapshot in calls]

    def _on_all(self, method: str, arguments: Sequence[dict[str, Any]]) -> list[Any]:
        """Calls a method of the first learners, each with its arguments.

        Raises:
            _LostLearner: When one is gone.
        """
        pairs = zip(self._workers, arguments, strict=False)
        return self._results([getattr(w, method).remote(**given) for w, given in pairs])

    def _results(self, calls: list[Any]) -> list[Any]:
        """Results of calls; the first error is raised, that of a lost learner before others."""
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
                if self.rebuilt >= self.config.max_learner_restarts:
                    raise RuntimeError(
                        f"a learner was lost: {reason} (max_learner_restarts is"
                        f" {self.config.max_learner_restarts}). Resume the run from its last"
                        " checkpoint"
                    ) from lost
                logger.warning("a learner was lost and the group is built again: %s", reason)
            with suppress(_LostLearner):
                self._build_again()

    def _build_again(self) -> None:
        for worker in self._workers:
            ray.kill(worker)
        executor = self._backend_executor
        executor._placement_group = None  # it is the algorithm's, for the next learners too
        executor.shutdown(graceful_termination=False)
        kept, rebuilt = self._kept, self.rebuilt + 1
        self.rebuilt = rebuilt
        super().__init__(**self._made_with)
        if kept:
            given = kept if len(kept) > 1 else kept * len(self._workers)
            try:
                self._on_all("resume", [{"snapshot": of_one} for of_one in given])
            except ObjectLostError as error:
                raise RuntimeError(
                    "a learner was lost with its node, where what the learners had learned was"
                    " kept: resume the run from its last checkpoint"
                ) from error


class _OfModules:
    """The learners as those of the policies that acted for an agent."""

    def __init__(self, group: TextLearnerGroup, module_ids: tuple[str, ...]) -> None:
        self._group, self._module_ids = group, module_ids

    def score(self, *args: Any, **kwargs: Any) -> list[NDArray[np.float32]]:
        """See `TextLearnerGroup.score`.

        Raises:
            ValueError: When several policies acted: which of them scores is not known here.
        """
        return self._group.score(*args, **kwargs, module_id=self._only("log-probabilities"))

    def values(self, *args: Any, **kwargs: Any) -> list[NDArray[np.float32]]:
        """See `TextLearnerGroup.values`.

        Raises:
            ValueError: When several policies acted: whose critic it is is not known here.
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
    """Stands for the learners of a group where RLlib saves and loads."""

    def __init__(self, group: TextLearnerGroup) -> None:
        self._group = group

    def save_to_path(self, path: Any = None, *, state: Any = None, **kwargs: Any) -> str:
        """Saves sharded learners all together, where all nodes see the path; else the first."""
        group, folder = self._group, str(path)
        if group.config.sharding != "none":
            group._on_all("save_shards", [{"path": folder}] * len(group))
            return folder
        here, (there,) = _node(), group._on_all("apply", [{"func": _node}])
        if here == there:
            group._on_all("save_to_path", [{"path": folder, **kwargs}])
        else:
            (draft,) = group._on_all("save_to_path", [{}])
            sync_dir_between_nodes(there, draft, here, folder)
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


def _node(learner: Any = None) -> str:
    return str(ray.util.get_node_ip_address())
