"""A game of many turns in verifiers' format, without any import of TRCA."""

import asyncio

import verifiers.v1 as vf

__all__ = ["Higher", "HigherEnv"]


class HigherData(vf.TaskData):
    goal: int


class HigherTask(vf.Task[HigherData]):
    pass


class HigherConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    paid: bool = True
    silent: bool = False
    closed: bool = False


class HigherEnv(vf.Env[HigherConfig]):
    async def start(self):
        if self.config.closed:
            raise OSError("the casino is closed")

    async def run(self, task, agents):
        if self.config.silent:
            await asyncio.Event().wait()
        solved = False
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated and not solved:
                guess = int(segment.last_reply)
                solved = guess == task.data.goal
                if not solved:
                    way = "higher" if guess < task.data.goal else "lower"
                    segment = await interaction.turn(way)
        if self.config.paid:
            interaction.trace.record_reward("found", float(solved))


class Higher(vf.Taskset[HigherTask]):
    INFINITE = True

    def load(self):
        n = 0
        while True:
            yield HigherTask(HigherData(prompt="Guess from 1 to 8.", goal=n % 8 + 1))
            n += 1
