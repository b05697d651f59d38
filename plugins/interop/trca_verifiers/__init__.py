"""The taskset ``trca-verifiers``; verifiers locates tasksets by the names of modules."""

from trca_interop.verifiers import *  # noqa: F403
from trca_interop.verifiers import __all__ as __all__
