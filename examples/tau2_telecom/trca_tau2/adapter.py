"""`TicketAdapter`: facts, context and memory line from the ticket, the calls and their results."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from trca.envs import Adapter
from trca.envs.adapter import memory_line_of
from trca.envs.tool_calls import Call, read_calls
from trca_tau2.facts import Binding, Facts
from trca_tau2.reading import (
    CHANGES,
    HOPELESS,
    PROVING,
    TESTS,
    VOLATILE,
    is_right,
    is_wrong,
    kind_of,
    read_result,
    read_ticket,
    works,
)


class TicketAdapter(Adapter):
    """Follows an episode of tau2 telecom. Checks, database and gold actions never reach it.

    Attributes:
        values: The values that the agent has read, by name. A change removes the values that it
            may make untrue.
        escalated: Whether the agent has called a human agent.
        last: Name of the last tool; empty at the start and after an action without a call.
        failed: Whether the last call failed.
    """

    facts_type, binding_type = Facts, Binding
    facts: Facts
    binding: Binding

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding = read_ticket(instruction)
        self.values: dict[str, str] = {}
        self.escalated, self.last, self.failed = False, "", False
        self.facts = Facts()
        self._found: set[str] = set()
        self._fixed: set[str] = set()
        self._solved, self._untested = False, True
        self._past: set[object] = set()

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Facts:
        calls = read_calls(action)
        results = observation.split("\n\n") if len(calls) > 1 else [observation]
        if len(results) > len(calls):
            results = ["Error"] * len(calls)  # a result with an empty line is not read
        before = dict(self.values)
        fixed: list[str] = []
        broken: list[str] = []
        for call, result in zip(calls, results, strict=False):
            self._read(call, result, fixed, broken)
        fresh = {name for name, value in self.values.items() if before.get(name) != value}
        wrong = [n for n in fresh if is_wrong(n, self.values[n], self.binding)]
        found = tuple(sorted(n for n in wrong if n not in self._found and n not in broken))
        self._found.update(found)
        first_fixed = tuple(sorted(set(fixed) - self._fixed))
        self._fixed.update(first_fixed)
        kind = kind_of(calls[0].name) if calls else ""
        tested = self._untested and kind == "check" and TESTS.get(self.binding.issue) in fresh
        self._untested = bool(first_fixed) or (self._untested and not tested)
        solved = not self._solved and works(self.binding.issue, self.values)
        self._solved |= solved
        self.failed = bool(calls) and any(map(_is_error, results))
        self.last = calls[-1].name if calls else ""
        state = (action, observation, tuple(sorted(self.values.items())))
        self.facts = Facts(
            kind=kind,
            accepted=bool(calls) and not self.failed,
            repeated=self._repeats(state),
            identified="customer" in self.values and "customer" not in before,
            line_found="line" in self.values and "line" not in before,
            found=found,
            fixed=first_fixed,
            broken=tuple(sorted(broken)),
            tested=tested,
            solved=solved,
            known_works=works(self.binding.issue, before),
            hopeless=any(before.get(name) == value for name, value in HOPELESS.items()),
        )
        return self.facts

    def _read(self, call: Call, result: str, fixed: list[str], broken: list[str]) -> None:
        """Reads one result; a value that a change makes right or wrong goes to its list."""
        if _is_error(result):
            return
        kind = kind_of(call.name)
        values = read_result(call, result, self.values.get("line", ""), self.binding)
        if kind in ("repair", "account"):
            for name in CHANGES.get(call.name, ()):
                known, value = self.values.get(name, ""), values.get(name, "")
                was_wrong = is_wrong(name, known, self.binding)
                proved = not known and call.name in PROVING and "already" not in result
                if is_right(name, value, self.binding) and (was_wrong or proved):
                    fixed.append(name)
                if is_wrong(name, value, self.binding) and not was_wrong:
                    broken.append(name)
            for name in VOLATILE:
                self.values.pop(name, None)
        self.escalated |= kind == "escalate"
        self.values |= values

    @property
    def memory(self) -> str:
        """The issue, its test, names of wrong and right values, other values, the last call."""
        issue = f"{self.binding.issue or 'issue'} {'abroad' if self.binding.abroad else 'at home'}"
        tested = self.values.get(TESTS.get(self.binding.issue, ""))
        test = "works" if works(self.binding.issue, self.values) else "fails"
        parts = [issue, f"test {test if tested else 'unknown'}"]
        names = sorted(self.values)
        for word, judge in (("wrong", is_wrong), ("right", is_right)):
            judged = [name for name in names if judge(name, self.values[name], self.binding)]
            names = [name for name in names if name not in judged]
            parts += [f"{word} {' '.join(judged)}"] if judged else []
        parts += [f"{name} {self.values[name]}" for name in names if name not in VOLATILE]
        parts += ["human called"] if self.escalated else []
        parts.append(f"last {self.last or 'nothing'}{' failed' if self.failed else ''}")
        return memory_line_of(f"{part}." for part in parts)

    @property
    def context(self) -> str:
        text = "|".join(
            [*(f"{n}={v}" for n, v in sorted(self.values.items())), str(self.escalated)]
        )
        return f"{self.binding.issue}|{blake2b(text.encode(), digest_size=8).hexdigest()}"


def _is_error(result: str) -> bool:
    return result.startswith("Error")
