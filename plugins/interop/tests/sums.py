"""Tasksets in verifiers' format, without any import of TRCA."""

import verifiers.v1 as vf

__all__ = ["Sums"]


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=2.0)
    async def right(self, task, trace) -> float:
        if "crash" in trace.last_reply:
            raise OSError("the abacus broke")
        return float(trace.last_reply == task.answer)


class SumsConfig(vf.TasksetConfig):
    count: int = 12


class Sums(vf.Taskset[SumTask, SumsConfig]):
    """One question and one answer per task."""

    def load(self):
        for n in range(self.config.count):
            prompt = f"What is {n} + 1?"
            data = SumData(prompt=prompt, system_prompt="Be brief.", answer=str(n + 1))
            yield SumTask(data, self.config.task)
