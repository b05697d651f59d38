"""tau2's telecom domain in solo mode: one agent calls the tools of the carrier and of the phone.

The benchmark's own environment parses two TOML files and builds 86 Pydantic classes at each start,
0.15 s and more. Here both happen once in a process, and a task starts from a copy of the database.
Two things differ from the benchmark, because a task must always give the same texts:

- ``break_vpn`` of the benchmark changes an object that all phones of the process share, so that
  ``connect_vpn`` depends on tasks that were played before. Here each phone has its own.
- New bills have the numbers B9000, B9001 and so on, not random numbers. With random numbers the
  benchmark's own evaluator refuses an episode in which the agent reads such a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tau2.data_model.message import ToolCall
from tau2.data_model.tasks import Action, EnvAssertion, EnvFunctionCall
from tau2.domains.telecom.data_model import TelecomDB
from tau2.domains.telecom.environment import TelecomEnvironment
from tau2.domains.telecom.tools import TelecomTools
from tau2.domains.telecom.user_data_model import TelecomUserDB
from tau2.domains.telecom.user_tools import TelecomUserTools
from tau2.domains.telecom.utils import TELECOM_DB_PATH, TELECOM_USER_DB_PATH

_VPN: Final = TelecomUserTools.default_vpn_details.model_copy()
DONE: Final = "done"
"""The tool that ends the episode, as in the benchmark's solo agent."""


class Simulator:
    """The carrier's database and the customer's phone during one task."""

    def start(self, task: Mapping[str, Any]) -> None:
        """Starts a task."""
        carrier, phone = _databases()
        tools = TelecomTools(carrier.model_copy(deep=True))
        user_tools = TelecomUserTools(phone.model_copy(deep=True))
        user_tools.default_vpn_details = _VPN.model_copy()
        self._env = TelecomEnvironment("telecom", "", tools, user_tools)
        self._env.solo_mode = True
        self._task = task
        self._calls: list[ToolCall] = []
        self._new_bills = 0
        actions = task["initial_state"]["initialization_actions"]
        self._env.set_state(None, [EnvFunctionCall(**action) for action in actions], [])

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """Carries out a call. Returns the benchmark's answer and whether it is an error."""
        call = ToolCall(id=str(len(self._calls)), name=name, arguments=arguments)
        self._calls.append(call)
        bills = self._env.tools.db.bills
        before = len(bills)
        answer = self._env.get_response(call)
        if len(bills) > before:
            self._number_bill(bills[-1].bill_id, f"B90{self._new_bills:02}")
            self._new_bills += 1
        return str(answer.content), bool(answer.error)

    def checks(self) -> list[bool]:
        """The benchmark's checks of success on the present state, in its order.

        A task without a repair also asks for the call of a human agent.
        """
        criteria = self._task["evaluation_criteria"]
        results = [self._holds(EnvAssertion(**each)) for each in criteria["env_assertions"]]
        if "ACTION" in criteria["reward_basis"]:
            gold = [Action(**action) for action in criteria["actions"]]
            results += [any(map(action.compare_with_tool_call, self._calls)) for action in gold]
        return results

    def _holds(self, assertion: EnvAssertion) -> bool:
        try:
            return self._env.run_env_assertion(assertion, raise_assertion_error=False)
        except (AttributeError, ValueError):  # a nonsensical setting that the benchmark accepts
            return False

    def _number_bill(self, drawn: str, number: str) -> None:
        """Replaces the random number of a new bill."""
        database = self._env.tools.db
        database.bills[-1].bill_id = number
        for customer in database.customers:
            customer.bill_ids = [number if each == drawn else each for each in customer.bill_ids]


@cache
def tool_schemas() -> tuple[Mapping[str, Any], ...]:
    """The schemas of the benchmark's 43 tools and of ``done``."""
    carrier, phone = _databases()
    toolkits = (TelecomTools(carrier), TelecomUserTools(phone))
    tools = [tool.openai_schema for kit in toolkits for tool in kit.get_tools().values()]
    text = "Call this function when you are done with the task."
    parameters = {"type": "object", "properties": {}}
    done = {"name": DONE, "description": text, "parameters": parameters}
    return (*tools, {"type": "function", "function": done})


@cache
def _databases() -> tuple[TelecomDB, TelecomUserDB]:
    return TelecomDB.load(TELECOM_DB_PATH), TelecomUserDB.load(TELECOM_USER_DB_PATH)
