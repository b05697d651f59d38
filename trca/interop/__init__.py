"""Adapters between this package and TRL, OpenEnv and verifiers, in both directions.

See docs/interop.md. Each module imports its library; this package imports no library.
"""
