"""Second name of the plug-in `trca_interop`: ``trca.interop.trl`` is the module `trca_interop.trl`.

The adapters between this package and TRL, OpenEnv, verifiers, verl and SkyRL are a distribution in
``plugins/interop`` of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from trca.common.extras import install

_PLUGIN: Final = "trca_interop"

if find_spec(_PLUGIN) is None:
    raise ModuleNotFoundError(
        f"{__name__} needs the plug-in {_PLUGIN}: {install(folder='./plugins/interop')}",
        name=_PLUGIN,
    )


class _SecondName(MetaPathFinder, Loader):
    """Makes ``trca.interop.NAME`` the same module object as ``trca_interop.NAME``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith(f"{__name__}.") else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        sys.modules[name] = import_module(_PLUGIN + name.removeprefix(__name__))


sys.meta_path.insert(0, _SecondName())
