"""An environment in TRL's format, without any import of TRCA."""

import asyncio


class Guess:
    """Guess a number from 1 to 8."""

    def __init__(self):
        self.goal = 0
        self.tries = []
        self.thinking = None

    def reset(self, goal: int, **row) -> str:
        self.goal, self.tries, self.thinking = goal, [], None
        return "I think of a number from 1 to 8."

    def guess(self, number: int) -> str:
        """Guesses the number.

        Args:
            number: The guess.

        Returns:
            Whether the number is greater or smaller.
        """
        if not 1 <= number <= 8:
            raise ValueError(f"{number} is not from 1 to 8")
        if number == 7 and self.goal == 6:
            raise OSError("the dice fell off the table")
        self.tries.append(number)
        if number == self.goal:
            return "right"
        return "greater" if number < self.goal else "smaller"

    async def hint(self) -> str:
        """Answers a second question: whether the number is even."""
        if self.thinking is None:
            self.thinking = asyncio.create_task(asyncio.sleep(0, self.goal % 2))
            return "let me think"
        return "odd" if await self.thinking else "even"

    def get_reward(self) -> float | None:
        return 1.0 / len(self.tries) if self.goal in self.tries else 0.0


class Broken(Guess):
    def get_reward(self):
        return float("nan")
