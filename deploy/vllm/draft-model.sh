#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# A small model of the same family drafts. Port 8001. Since vLLM 0.15. The vocabularies must be equal in size, and the
# draft model is split over as many GPUs as the target (draft_tensor_parallel_size defaults to that, and model runner
# V1 refuses anything else). Its own key-value cache comes on top of the target's.
# Read in: code config/speculative.py verify_equal_vocab_size_if_draft_model, v1/spec_decode/draft_model.py.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$SPECULATIVE_GPUS}"

# The same as for the EAGLE-3 head, so that a verification costs the same and the two compare.
SPEC_TOKENS="${SPEC_TOKENS:-3}"

# greedy is vLLM's default, and what makes the rule "temperature > 1.0 goes to the plain pool" right: acceptance falls
# with temperature. probabilistic keeps it nearly flat, for a cache of draft logits (see the fleet's memory); route by
# load then (--policy least_loaded), or measure first.
DRAFT_SAMPLE_METHOD="${DRAFT_SAMPLE_METHOD:-greedy}"

# rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "draft_model", "model": "%s", "num_speculative_tokens": %d, "draft_sample_method": "%s", "rejection_sample_method": "standard"}' \
  "$DRAFT_MODEL" "$SPEC_TOKENS" "$DRAFT_SAMPLE_METHOD")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics "summary" \
  "$@"
