"""The toy environment with a task whose second step raises."""

from typing import ClassVar

from tests.toy import Rooms


class Leaking(Rooms):
    open: ClassVar = set()  # open environments

    def __init__(self, **kwargs):
        super().__init__(leaking=("train-1",), **kwargs)
        self.open.add(self)

    def close(self):
        self.open.discard(self)
