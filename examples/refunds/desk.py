"""A desk for refunds: the actions are calls of tools, and four operators judge them."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trca.envs import Adapter, Outcome, ToolEnv, ToolError, tool
from trca.envs.panel import no_task
from trca.envs.tool_calls import write_calls


@dataclass(frozen=True)
class Facts:
    """What the agent sees in its orders for the first time, and what it refunds."""

    new: tuple[str, ...] = ()
    refunded: str = ""


@dataclass(frozen=True)
class Binding:
    """The thing to refund."""

    thing: str = ""


class DeskAdapter(Adapter):
    """Reads which things the agent has seen; the thing of an order may be unknown."""

    facts_type, binding_type = Facts, Binding

    def reset(self, instruction, observation, admissible):
        self.binding, self.facts = Binding(instruction[11:-1]), Facts()
        self.known = dict.fromkeys(re.findall(r"\d+", observation), "unknown")

    def step(self, action, observation, admissible):
        shown = dict(re.findall(r"Order (\d+) is a (\w+)", observation))
        refunded = re.findall(r"Order (\d+) is refunded", observation)
        new = tuple(thing for order, thing in shown.items() if self.known.get(order) == "unknown")
        self.known |= shown
        self.facts = Facts(new, *(self.known[order] for order in refunded))
        return self.facts

    @property
    def memory(self):
        unseen = [order for order, thing in self.known.items() if thing == "unknown"]
        found = [order for order, thing in self.known.items() if thing == self.binding.thing]
        return f"It is order {found[0]}." if found else f"Not seen: {', '.join(unseen)}."

    context = property(lambda self: f"{self.binding.thing}|{self.known}")


class RefundDesk(ToolEnv):
    """Look at orders, and refund the one with the right thing. A refund ends the episode."""

    adapter_class, library = DeskAdapter, Path(__file__).with_name("rubric.yaml")
    tiny_policy = {"hidden_size": 64, "layers": 2, "stages": ((0.5, 450),)}  # noqa: RUF012
    task_ids = tuple(f"task-{number}" for number in range(64))
    order = {"order": {"type": "integer"}}  # noqa: RUF012
    tools = (tool("show", "Shows an order.", order), tool("refund", "Refunds an order.", order))
    instruction = property(lambda self: f"refund the {self.thing}.")

    def start_task(self, task_id, options):
        if task_id not in self.task_ids:
            raise no_task(task_id, self.split, self.task_ids)
        draw = np.random.default_rng([self.split == "test", self.task_ids.index(task_id)])
        things = draw.permutation(["lamp", "desk", "chair", "shelf", "clock"])[:4].tolist()
        self.orders, self.thing = dict(enumerate(things, 1)), draw.choice(things)
        return f"The orders are {', '.join(map(str, self.orders))}."

    def call(self, name, arguments):
        thing = self.orders.get(order := arguments["order"])
        if thing is None:
            raise ToolError(f"there is no order {order}")
        if name == "show":
            return f"Order {order} is a {thing}."
        return Outcome(f"Order {order} is refunded.", float(thing == self.thing), terminated=True)

    @property
    def admissible_actions(self):
        names = ("show", "refund")
        return [write_calls([(name, {"order": o})]) for name in names for o in self.orders]

    def demonstrator_action(self):
        seen = {thing: int(order) for order, thing in self.adapter.known.items()}
        name = "refund" if self.thing in seen else "show"
        return write_calls([(name, {"order": seen.get(self.thing, seen.get("unknown"))})])

    oracle_action = demonstrator_action
