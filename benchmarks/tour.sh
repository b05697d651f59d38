#!/usr/bin/env bash
# The commands a demanding new user tries, the wrong ones too, with all they print in one file.
#
#   benchmarks/tour.sh [FOLDER]     some 75 commands, most of them seconds; writes FOLDER/tour.txt
#
# A pipe and a terminal (a pseudo-terminal by script(1)), 80 and 60 columns wide. TOUR_MODEL is the
# model of its short runs; the default is a small random one, so that nothing is built first.
set -u
folder=$(mkdir -p "${1:-outputs/tour}" && cd "${1:-outputs/tour}" && pwd)
out="$folder/tour.txt"
model=${TOUR_MODEL:-shrunk:Qwen/Qwen2.5-1.5B-Instruct}
work="$folder/work"
rm -rf "$work" && mkdir "$work" && cd "$work" || exit 1
: > "$out"
export HF_HUB_OFFLINE=1

redrawn="$work/redrawn.py"
cat > "$redrawn" <<'PY'
"""Prints what a terminal shows in the end: a line that is redrawn counts once."""
import re, sys

lines = [""]
for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\n)", open(sys.argv[1], newline="").read()):
    if part == "\n":
        lines.append("")
    elif part == "\x1b[1A":  # up: what stood below is drawn anew
        lines = lines[:-1] or [""]
    elif part == "\x1b[2K":
        lines[-1] = ""
    elif not part.startswith("\x1b"):
        lines[-1] += part.replace("\r", "")
print("\n".join(lines))
PY

chapter() { printf '\n\n######## %s\n' "$*" >> "$out"; }

# COLUMNS-wide, into a pipe.
pipe() {
    local columns=$1
    shift
    printf '\n[pipe, %s columns] $ %s\n' "$columns" "$*" >> "$out"
    COLUMNS=$columns bash -c "$*" 2>&1 < /dev/null | cat >> "$out"
    printf '[rc %s]\n' "${PIPESTATUS[0]}" >> "$out"
}

# The same in a terminal; escape codes and redrawn lines are taken out of what is kept.
terminal() {
    local columns=$1
    shift
    printf '\n[terminal, %s columns] $ %s\n' "$columns" "$*" >> "$out"
    script -qefc "stty cols $columns rows 40; $*" /dev/null < /dev/null > raw.txt 2>&1
    local rc=$?
    python "$redrawn" raw.txt >> "$out"
    printf '[rc %s]\n' "$rc" >> "$out"
}

short="--model=$model --iterations=2 --set=tasks_per_iteration=2 --set=group_size=2 \
--set=env_config.max_steps=3 --set=max_new_tokens=8 --set=max_prompt_tokens=512 \
--set=evaluation_tasks=3 --set=num_env_runners=0 --set=num_learners=0"
cat > rule.py <<'PY'
"""A credit rule: the outcome, the same for every step of a rollout."""


def outcome(batch):
    return batch.reward - batch.reward.mean()


def asks(batch, weight):
    return weight * batch.reward


def breaks(batch):
    raise ValueError("no credit today")
PY
printf 'base: quickstart\nset: {iterations: 1}\ngrid:\n  credit: [rule.py:outcome, rule.py:breaks]\nseeds: [0]\n' > sweep.yaml
printf 'base: quickstart\nset: {iterations: 1}\ngrid: {algorithm: [TRCA, GRPO]}\nseeds: [0]\n' > algorithms.yaml
trial="--set=model=$model --set=tasks_per_iteration=2 --set=group_size=2 \
--set=env_config.max_steps=3 --set=max_new_tokens=8 --set=max_prompt_tokens=512 \
--set=evaluation_tasks=3 --set=num_env_runners=0 --set=num_learners=0"
touch file

chapter "First looks"
pipe 80 "trca --version"
pipe 80 "python -m trca --version"
pipe 80 "trca --help"
terminal 60 "trca train --help"
pipe 80 "python -c 'from trca import TRCAConfig; print(TRCAConfig)'"
pipe 80 "python -c 'import sys, trca.envs; print([m for m in (\"torch\", \"ray\", \"transformers\") if m in sys.modules])'"

chapter "Rubrics and play"
pipe 80 "trca new-env my_game"
pipe 80 "trca new-env my_game"
pipe 80 "trca rubric check my_game/my_game/rubric.yaml --env my_game/my_game/env.py:MyGame --tasks 8"
pipe 80 "trca rubric build alfworld --to mine.yaml --url http://127.0.0.1:9/v1 --model m"
pipe 80 "trca rubric show alfworld"
terminal 60 "trca rubric show alfworld"
pipe 60 "trca rubric facts alfworld"
pipe 80 "printf 'look\nquit\n' | trca play alfworld"
pipe 60 "trca play alfworld --policy oracle"

chapter "Dry runs"
pipe 80 "trca train --dry-run"
terminal 60 "trca train --dry-run"
pipe 80 "trca train paper/alfworld_qwen2.5_1.5b --dry-run"
pipe 80 "trca train --dry-run --set max_prompt_tokens=10"
pipe 80 "trca train --dry-run --set group_size=1"

chapter "What is wrong is one line"
pipe 80 "trca train quickstart --set learning_rate=1e-4"
pipe 80 "trca train quickstart --algorithm GRPO --set lambda_=0.5"
pipe 80 "trca train quickstart --algorithm grpo --dry-run | head -5"
pipe 80 "trca train quickstart --set train_batch_size=100"
pipe 80 "trca train quickstart --model ./nothing"
pipe 80 "trca train quickstart --model no/such-model"
pipe 80 "trca train quickstart --set num_learners=1 --set num_gpus_per_learner=8"
pipe 80 "trca train quickstart --set credit=rule.py:asks"
pipe 80 "trca train quickstart $short --storage-path file"
pipe 80 "trca train quickstart $short --storage-path /proc/runs"
pipe 80 "trca train quickstart $short --set credit=rule.py:breaks --name broken"
pipe 80 "cat outputs/broken/status.json"

chapter "A run, with a rule of one's own"
pipe 80 "trca train quickstart $short --set credit=rule.py:outcome"
terminal 60 "trca train quickstart $short --name in_a_terminal"
pipe 80 "ls -A outputs/quickstart outputs/quickstart/files; cat outputs/quickstart/files.json"
pipe 80 "trca train --resume quickstart"
pipe 80 "trca train --resume quickstart --iterations 3 & sleep 15; trca train --resume quickstart --iterations 4; wait"
pipe 80 "trca inspect outputs/quickstart --iteration 2 --rollout 0"

chapter "Evaluate"
pipe 80 "trca evaluate outputs/quickstart --tasks 2 --seeds 2 --transcripts"
terminal 60 "trca evaluate outputs/quickstart --tasks 3 --temperature 0"
pipe 80 "ls outputs/quickstart | grep evaluation"
pipe 80 "trca evaluate outputs/quickstart --config webshop"
pipe 80 "trca evaluate outputs/quickstrat"

chapter "Look back"
pipe 80 "trca diagnose outputs/quickstart"
terminal 60 "trca diagnose outputs/quickstart"
pipe 80 "trca recredit outputs/quickstart --credit gigpo"
pipe 80 "trca recredit outputs/quickstart --credit gipgo"
pipe 80 "trca compare outputs/quickstart outputs/in_a_terminal"
pipe 80 "trca compare outputs/quickstart outputs/nothing"
pipe 80 "trca report outputs/quickstart outputs/in_a_terminal --by credit"
pipe 80 "trca evaluate outputs/quickstart --panel offical-134"

chapter "Export and move"
pipe 80 "trca export outputs/quickstart --to 'my policy'"
pipe 80 "head -30 'my policy/README.md'"
pipe 80 "trca evaluate 'my policy' --config outputs/quickstart/config.yaml --tasks 2"
pipe 80 "mkdir elsewhere; mv outputs/quickstart 'elsewhere/my run'; mv rule.py hidden.py"
pipe 80 "trca evaluate 'elsewhere/my run' --tasks 2"
pipe 80 "trca train --resume 'elsewhere/my run' --iterations 4"
mv hidden.py rule.py

chapter "Sweeps"
pipe 80 "trca sweep sweeps/lambda --dry-run"
pipe 80 "trca sweep sweeps/budgets --dry-run"
pipe 80 "trca sweep algorithms.yaml $trial"
pipe 80 "trca sweep sweep.yaml $trial"
pipe 80 "ls outputs/sweep outputs/sweep/trials; cat outputs/sweep/status.json"
pipe 80 "trca evaluate outputs/algorithms/trials/002_algorithm-GRPO_seed-0 --tasks 2"

echo "$out"
