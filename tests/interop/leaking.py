"""The toy environment with a task whose second step raises."""

from tests.toy import Rooms


class Leaking(Rooms):
    def __init__(self, **kwargs):
        super().__init__(leaking=("train-1",), **kwargs)
