#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# Suffix trees over earlier answers propose what followed there. Port 8001. Since vLLM 0.13 or earlier. Needs the
# package arctic-inference==0.1.1 beside vLLM, which its container image need not have. It runs on model runner V1 and
# without asynchronous scheduling, so a difference to the other arms is not speculation alone.
# Read in: code config/speculative.py _validate_suffix_decoding, config/vllm.py.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$SPECULATIVE_GPUS}"

# An upper bound: the trees decide how much they propose. vLLM's default of 24 would let 128 requests ask for 3200
# tokens of verification per step, more than the whole budget; with 8 they leave 896 to prefill.
SPEC_TOKENS="${SPEC_TOKENS:-8}"

# rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "suffix", "num_speculative_tokens": %d, "rejection_sample_method": "standard"}' \
  "$SPEC_TOKENS")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics "summary" \
  "$@"
