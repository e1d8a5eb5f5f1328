#!/usr/bin/env bash
# The speculative pool: the same model with an EAGLE-3 head on GPUs 2 and 3, port 8001.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-2,3}"

# There is no EAGLE-3 head for Llama-3.1-70B from its authors; 3.3-70B has several.
HEAD="${HEAD:-RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3}"

# 3 is the better length for a pool that carries load: by the model of the step time it gives 2.6x instead of 3.1x on an
# idle engine (acceptance 0.81 per token) and moves the batch at which the gain is gone from 97 to 127 requests.
# SPEC_TOKENS=5 is the length of the published table.
SPEC_TOKENS="${SPEC_TOKENS:-3}"

# greedy is vLLM's default, and what makes the rule "temperature > 1.0 goes to the plain pool" right: acceptance falls
# with temperature. probabilistic keeps acceptance nearly flat, at the price of a cache of draft logits; route by load
# then (--policy least_loaded), or measure first.
DRAFT_SAMPLE_METHOD="${DRAFT_SAMPLE_METHOD:-greedy}"

# rejection_sample_method is named, so that nobody turns it to "fly" unseen: that one changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "eagle3", "model": "%s", "num_speculative_tokens": %d, "draft_sample_method": "%s", "rejection_sample_method": "standard"}' \
  "$HEAD" "$SPEC_TOKENS" "$DRAFT_SAMPLE_METHOD")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics summary \
  "$@"
