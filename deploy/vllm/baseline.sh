#!/usr/bin/env bash
# The plain pool: Llama-3.3-70B without speculation on GPUs 0 and 1, port 8000.
# It serves what a speculative engine refuses (min_p, logit_bias), and what the policy keeps away from drafts.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-0,1}"

# No --per-request-spec-decode-metrics here: without speculation it is an error at start-up.
exec vllm serve "$MODEL" --port "${PORT:-8000}" "${POOL_FLAGS[@]}" "$@"
