#!/usr/bin/env bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# EAGLE-3 whose k follows the batch. Port 8001. Since vLLM 0.24. Per step and for the whole batch: vLLM has no
# per-request switch. Batch size counts every scheduled request, one in prefill too; a gap or the tail of the schedule
# keeps the k before it; slots in the cache are reserved for SPEC_TOKENS whatever k is. With data parallelism the
# schedule is dropped at start-up. vLLM issue 49548 (open) reports that throughput collapses where a threshold is
# crossed, on model runner V1 with piecewise graphs: measure before use.
# Read in: code v1/spec_decode/dynamic/utils.py, v1/core/sched/scheduler.py, config/vllm.py.
set -euo pipefail
# shellcheck source=deploy/vllm/pools.sh
source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"

export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-$SPECULATIVE_GPUS}"

# The most that a step drafts; the fleet's SCHEDULE lowers it with the batch.
SPEC_TOKENS="${SPEC_TOKENS:-3}"

# greedy is vLLM's default, and what makes the rule "temperature > 1.0 goes to the plain pool" right: acceptance falls
# with temperature. probabilistic keeps it nearly flat, for a cache of draft logits (see the fleet's memory); route by
# load then (--policy least_loaded), or measure first.
DRAFT_SAMPLE_METHOD="${DRAFT_SAMPLE_METHOD:-greedy}"

# rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.
SPECULATIVE_CONFIG=$(printf '{"method": "eagle3", "model": "%s", "num_speculative_tokens": %d, "num_speculative_tokens_per_batch_size": %s, "draft_sample_method": "%s", "rejection_sample_method": "standard"}' \
  "$HEAD" "$SPEC_TOKENS" "$SCHEDULE" "$DRAFT_SAMPLE_METHOD")

exec vllm serve "$MODEL" --port "${PORT:-8001}" "${POOL_FLAGS[@]}" \
  --speculative-config "$SPECULATIVE_CONFIG" \
  --per-request-spec-decode-metrics "summary" \
  "$@"
