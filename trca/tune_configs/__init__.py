"""Runs and sweeps as YAML, and the way from a file to an RLlib algorithm config.

A file is flat: every key is a name of this package's parameters or one of RLlib's own::

    algorithm: TRCA
    env: trca/ALFWorld-v0
    env_config: {games: small}
    lr: 4.0e-4

The folders say what a file is for: ``quickstart.yaml`` trains anywhere in minutes, ``embedded/``
needs no download, ``paper/`` has the paper's settings, ``sweeps/`` are grids for ``trca sweep``.
"""
