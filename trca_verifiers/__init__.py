"""The taskset ``trca-verifiers`` of verifiers, which finds tasksets by the names of modules."""

from trca.interop.verifiers import *  # noqa: F403
from trca.interop.verifiers import __all__ as __all__
