# make train   sets up what training needs and trains the embedded quickstart
# make test    sets everything up and runs the tests
# make quick   runs the fast tests that start neither Ray nor a model; make quick PART=envs the fast tests of tests/envs
#              that do not start Ray
# make test-slow  runs the tests that start clusters and several learners, and kill them
# make test-vllm  sets up an environment with vLLM and runs the tests of the vLLM engine
# make test-smollm2  fetches a pretrained language model, and imitates and trains with it, on vLLM too
# make test-interop  sets up an environment for each of LIBRARIES, and runs the tests of plugins/interop and of the examples
#              with these libraries
# make test-versions  sets up an environment each with the oldest and the newest tested Gymnasium, without PyTorch and Ray,
#              and runs the tests of environments, vector environments, teams, the checker and rubrics; and one with the
#              newest tested Transformers, for the tests of policies; and one with the oldest tested Ray, for a part of
#              the tests of training and sweeps
# make faults  plants wrong code in a copy, one fault at a time, and runs the tests that must find the fault;
#              make faults WORDS="entropy KL" takes the faults with one of the words in the name
# make lint    sets everything up and checks style and types, and that every planted fault still applies
# make docs    sets everything up and builds the documentation, into build/site
# make .venv   sets everything up, and no more

export OMP_NUM_THREADS ?= 1
# Without stored bytecode, each process compiles PyTorch, Ray and Transformers again, which takes 14 s.
unexport PYTHONDONTWRITEBYTECODE

# A process more than cores, because tests wait. Files in their order, which has those of long tests first: the processes
# end at about the same time.
PYTEST = .venv/bin/pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Faults of `make faults` by words of their names; all without a word.
WORDS ?=

# Libraries with adapters in plugins/interop, and those of examples; each has a file in constraints/.
LIBRARIES = trl openenv verifiers mcp verl skyrl nemo_gym scienceworld textarena tau2 textworld_express

# Tests of the plug-in.
INTEROP = plugins/interop/tests

# Tested versions that are not in constraints/all.txt: the ends of the ranges in pyproject.toml.
VERSIONS = gymnasium-1.0.0 gymnasium-1.4.0 transformers-5.23.0 ray-2.58.1

# Tests of the base installation; tests that need Ray are skipped there.
BASE = tests/rubric $(filter-out tests/envs/test_isolated.py, \
       $(wildcard tests/envs/test_*.py tests/envs/*/test_env.py tests/envs/teams/test_*.py))

# Folders of tests for `make quick`; PART names another.
QUICK = tests/rubric tests/common tests/analysis tests/test_root_files.py

.PHONY: train test quick test-slow test-vllm test-smollm2 test-interop test-versions faults lint docs .venv

train: .venv/.train
	.venv/bin/trca train quickstart

test: .venv/.ready
	$(PYTEST) -m "not slow"

quick: .venv/.ready
	$(PYTEST) -m "not slow" --no-ray $(if $(PART),tests/$(PART),$(QUICK))

test-slow: .venv/.ready
	$(PYTEST) -m slow

test-vllm: .venv-vllm/.ready
	.venv-vllm/bin/python -m pytest tests/vllm

test-smollm2: .venv-vllm/.ready
	.venv/bin/trca data smollm2
	.venv-vllm/bin/python -m pytest tests/smollm2

test-interop: .venv-interop/.ready
	.venv-interop/trl/bin/python -m pytest $(INTEROP)/test_trl.py $(INTEROP)/test_tool_templates.py $(INTEROP)/test_docs.py
	.venv-interop/openenv/bin/python -m pytest $(INTEROP)/test_openenv.py $(INTEROP)/test_docs.py
	.venv-interop/verifiers/bin/python -m pytest $(INTEROP)/test_verifiers.py $(INTEROP)/test_docs.py
	.venv-interop/mcp/bin/python -m pytest $(INTEROP)/test_mcp.py $(INTEROP)/test_docs.py
	.venv-interop/verl/bin/python -m pytest $(INTEROP)/test_verl.py $(INTEROP)/test_docs.py
	.venv-interop/skyrl/bin/python -m pytest $(INTEROP)/test_skyrl.py $(INTEROP)/test_docs.py
	.venv-interop/nemo_gym/bin/python -m pytest $(INTEROP)/test_nemo_gym.py
	.venv-interop/scienceworld/bin/python -m pytest examples/scienceworld/tests
	.venv-interop/textarena/bin/python -m pytest examples/textarena/tests
	.venv-interop/tau2/bin/python -m pytest -c examples/tau2_telecom/pyproject.toml examples/tau2_telecom/tests
	.venv-interop/textworld_express/bin/python -m pytest -c examples/textworld_express/pyproject.toml examples/textworld_express/tests

test-versions: .venv-versions/.ready
	.venv-versions/gymnasium-1.0.0/bin/python -m pytest -m "not slow" $(BASE)
	.venv-versions/gymnasium-1.4.0/bin/python -m pytest -m "not slow" $(BASE)
	.venv-versions/transformers-5.23.0/bin/python -m pytest -m "not slow" tests/policies
	.venv-versions/ray-2.58.1/bin/python -m pytest -m "not slow" tests/algorithms/base/test_training.py tests/cli/sweep

faults: .venv/.ready
	.venv/bin/python -m benchmarks.planted_faults $(WORDS)

lint: .venv/.ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m benchmarks.planted_faults --check

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

.venv: .venv/.ready

.venv/.train: pyproject.toml constraints/all.txt
	.ci/setup train

.venv/.ready: .venv/.train plugins/interop/pyproject.toml
	.ci/setup dev

.venv-vllm/.ready: .venv/.ready constraints/vllm.txt
	.ci/setup-vllm

.venv-interop/.ready: .venv/.ready $(LIBRARIES:%=constraints/%.txt)
	.ci/setup-interop $(LIBRARIES)

.venv-versions/.ready: .venv/.ready
	.ci/setup-versions $(VERSIONS)

.venv/.docs: .venv/.ready
	.venv/bin/python -m pip install --quiet --quiet --no-compile --constraint constraints/all.txt --editable '.[docs]'
	touch .venv/.docs
