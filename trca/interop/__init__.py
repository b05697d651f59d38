"""Adapters between this package and TRL, OpenEnv and verifiers, in both directions.

See docs/interop.md and docs/interop_credit.md. Each module imports its library; this package
imports no library.
"""
