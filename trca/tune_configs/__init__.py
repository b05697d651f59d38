"""Runs and sweeps as YAML files, how these files are read, and the settings of a run.

A file is flat: every key is a setting of this package or of RLlib::

    algorithm: TRCA
    env: trca/ALFWorld-v0
    env_config: {games: small}
    lr: 4.0e-4

The folders group the files by purpose: ``quickstart.yaml`` trains anywhere in minutes,
``embedded/`` needs no download, ``paper/`` has the paper's settings, ``sweeps/`` has grids for
``trca sweep``.
"""
