# make train   sets everything up and trains the embedded quickstart
# make test    sets everything up and runs the tests
# make lint    sets everything up and checks style and types
# make .venv   sets everything up, and no more

export OMP_NUM_THREADS ?= 1

.PHONY: train test lint .venv

train: .venv/.ready
	.venv/bin/trca train quickstart

test: .venv/.ready
	.venv/bin/pytest

lint: .venv/.ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

.venv: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	.ci/setup
