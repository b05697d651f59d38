"""Adapters to other people's libraries: TRL, OpenEnv and verifiers, out and in (docs/interop.md).

Each module is for one library and imports it; this package imports none of them.
"""
