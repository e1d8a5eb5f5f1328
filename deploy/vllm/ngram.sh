#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# Prompt lookup: what followed the same words before is the draft. Port 8001. Since vLLM 0.7.3 or earlier. Nothing to
# load. It pays where the answer repeats the prompt: editing, extraction, retrieval. A step without a match has no
# draft and is left out of vLLM's acceptance counters, so they flatter it.
# Read in: code config/speculative.py, v1/worker/gpu/spec_decode/ngram.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$SPECULATIVE_GPUS}"

# The same as for the EAGLE-3 head, so that a verification costs the same and the two compare.
SPEC_TOKENS="${SPEC_TOKENS:-3}"

PROMPT_LOOKUP_MIN="${PROMPT_LOOKUP_MIN:-2}"

# The last 5 tokens are looked up, then 4, 3 and 2. vLLM's default is 5 alone, a choice its source calls arbitrary;
# neither was measured here.
PROMPT_LOOKUP_MAX="${PROMPT_LOOKUP_MAX:-5}"

# rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "ngram", "num_speculative_tokens": %d, "prompt_lookup_min": %d, "prompt_lookup_max": %d, "rejection_sample_method": "standard"}' \
  "$SPEC_TOKENS" "$PROMPT_LOOKUP_MIN" "$PROMPT_LOOKUP_MAX")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics "summary" \
  "$@"
