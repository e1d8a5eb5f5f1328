#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# EAGLE-3: a head of one layer on the target's hidden states. Port 8001. Since vLLM 0.8.5. There is no EAGLE-3 head
# for Llama-3.1-70B from its authors; 3.3-70B has several. draft_tensor_parallel_size is left out: the head runs in
# the target's own group of GPUs whatever it says.
# Read in: code model_executor/models/llama_eagle3.py, v1/worker/gpu/spec_decode/eagle.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$SPECULATIVE_GPUS}"

# 3 is the better length for a pool that carries load. By the model of the step time on a100-tp2-int8, with the
# published and unverified acceptance, k=5 gives one greedy request 3.1x and k=3 2.6x, but at T=0.7 k=5 stops paying
# beyond 60 running requests and k=3 beyond 89. SPEC_TOKENS=5 is the length of the published table.
SPEC_TOKENS="${SPEC_TOKENS:-3}"

# greedy is vLLM's default, and what makes the rule "temperature > 1.0 goes to the plain pool" right: acceptance falls
# with temperature. probabilistic keeps it nearly flat, for a cache of draft logits (see the fleet's memory); route by
# load then (--policy least_loaded), or measure first.
DRAFT_SAMPLE_METHOD="${DRAFT_SAMPLE_METHOD:-greedy}"

# rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "eagle3", "model": "%s", "num_speculative_tokens": %d, "draft_sample_method": "%s", "rejection_sample_method": "standard"}' \
  "$HEAD" "$SPEC_TOKENS" "$DRAFT_SAMPLE_METHOD")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics "summary" \
  "$@"
