#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# The plain pool: no speculation. Port 8000. It serves what a speculative engine refuses (min_p, logit_bias), and what
# the policy keeps away from drafts.
# Read in: code sampling_params.py.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$BASELINE_GPUS}"

# No --per-request-spec-decode-metrics here: without speculation it is an error at start-up.
exec vllm serve "$MODEL" --port "${PORT:-8000}" "${POOL_FLAGS[@]}" "$@"
