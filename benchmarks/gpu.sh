#!/bin/bash
# Measures on one GPU what a CPU cannot show, in parts of at most ten minutes each.
#
#     benchmarks/gpu.sh FOLDER [PART...]              # FOLDER gets a log per part
#     DEVICE=cpu benchmarks/gpu.sh FOLDER [PART...]   # the same calls on a CPU, with small sizes
#
# suites    the tests that need a GPU, with vLLM where it is installed
# update    an update at the shape of Qwen2.5-1.5B: tokens/s, MFU, memory, seconds of a push
# latency   seconds of a completion for 64 concurrent rollouts with vLLM, of a push, of sleep and wake
# sleep     training in which vLLM frees the memory of the GPU while the learner works
# smollm2   TRCA trains SmolLM2 for as many iterations as fit; a second call resumes the run
# rows      TRCA, GRPO and GiGPO train SmolLM2 side by side, from one new start per panel of PANELS
#           (default: 85 86); needs trca data smollm2, and a second call resumes the runs
#
# START     the folder of an imitation start of SmolLM2 (docs/models.md), for latency, sleep, smollm2
# GAMES     small (default), or official after `trca data alfworld`
# PYTHON    an interpreter with trca, vLLM and pytest (default: python)
# MINUTES   limit of a part (default: 9); an interrupt at the limit leaves a checkpoint
set -uo pipefail

folder=$(realpath -m "${1:?usage: benchmarks/gpu.sh FOLDER [suites|update|latency|sleep|smollm2|rows]...}")
shift
cd "$(dirname "$0")/.." || exit 2
device=${DEVICE:-cuda}
python=${PYTHON:-python}
games=${GAMES:-small}
minutes=${MINUTES:-9}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$folder"

settings=(--set env_config.max_steps=2)
few=(--set iterations=1 --set tasks_per_iteration=1 --set evaluation_tasks=2)
tasks=1
steps=1
dtype=float32
iterations=2
if [ "$device" = cuda ]; then
    dtype=bfloat16
    settings=(--set dtype=$dtype --set num_learners=1 --set num_gpus_per_learner=0.5)
    settings+=(--set num_env_runners=1 --set num_gpus_per_env_runner=0.5)
    settings+=(--set engine_config.gpu_memory_utilization=0.4)
    few=()
    tasks=16
    steps=16
    iterations=1000
fi

limited() {
    timeout --signal=INT --kill-after=60 "${minutes}m" "$@"
}

train() {
    local name=$1
    shift
    if [ -e "$folder/$name/config.yaml" ]; then
        limited "$python" -m trca train --resume "$folder/$name"
        return
    fi
    limited "$python" -m trca train embedded/smollm2 --model "$START" --name "$name" \
        --storage-path "$folder" "${settings[@]}" --set env_config.games="$games" "$@"
}

part() {
    case $1 in
    suites)
        limited "$python" -m pytest -q tests/algorithms/test_gpu.py \
            tests/vllm/test_vllm_gpu.py
        ;;
    update)
        limited "$python" benchmarks/learner.py --device "$device"
        ;;
    latency)
        limited "$python" benchmarks/scaling.py latencies --engine vllm --model "$START" \
            --device "$device" --dtype $dtype --steps $steps
        ;;
    sleep)
        train sleep --set engine_config.sleep=true --set iterations=2 \
            --set tasks_per_iteration=1 --set evaluation_tasks=2 --set evaluation_interval=2
        ;;
    smollm2)
        train smollm2 --set iterations=$iterations --set evaluation_interval=20 \
            --set tasks_per_iteration=$tasks
        ;;
    rows)
        # shellcheck disable=SC2086
        limited "$python" benchmarks/smollm2.py --panels ${PANELS:-85 86} --rows TRCA GRPO GiGPO \
            --device "$device" --side-by-side 6 --set 'env_config.task_types=[Pick]' \
            --set env_config.max_steps=8 --set micro_batch_tokens=4096 "${few[@]}" \
            --section rows --output "$folder/rows"
        ;;
    *)
        echo "unknown part $1: suites, update, latency, sleep, smollm2, rows"
        return 2
        ;;
    esac
}

[ $# -eq 0 ] && set -- suites update latency sleep smollm2 rows
failed=0
for name in "$@"; do
    if [[ $name =~ ^(latency|sleep|smollm2)$ && ! -e ${START:-}/config.json ]]; then
        echo "$name needs START: the folder of an imitation start of SmolLM2 (docs/models.md)"
        exit 2
    fi
    echo "== $name on $device, at most $minutes minutes, log in $folder/$name.log"
    begun=$SECONDS
    part "$name" > "$folder/$name.log" 2>&1
    code=$?
    tail -n 25 "$folder/$name.log"
    echo "== $name: exit $code after $((SECONDS - begun)) s"
    # 124: stopped at the limit.
    [ $code -eq 0 ] || [ $code -eq 124 ] || failed=1
done
exit $failed
