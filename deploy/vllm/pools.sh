# shellcheck shell=bash
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# What the two pools of a fleet share, sourced by the scripts that start an engine. Whatever stands here is equal in
# both, so that a comparison measures speculation and nothing else. Every value can be given from outside. Flags as of
# vLLM 0.33.0; sources in parentheses are files of that version.

FLEET="${FLEET:-llama-70b-2x2}"
case "$FLEET" in
  llama-70b-2x2 | llama-70b-4x4 | llama-8b-1x1) ;;
  *) echo "FLEET must be llama-70b-2x2, llama-70b-4x4 or llama-8b-1x1, got '$FLEET'" >&2; exit 2 ;;
esac
# shellcheck source=deploy/vllm/fleets/llama-70b-2x2.sh
source "$(dirname "${BASH_SOURCE[0]}")/fleets/$FLEET.sh"

# Read by the scripts that source this file.
# shellcheck disable=SC2034
POOL_FLAGS=(
  "${QUANTIZATION[@]}"
  --host "${HOST:-0.0.0.0}"

  # One name for both, whatever the repositories are called: the router sends the client's `model` on.
  --served-model-name "$SERVED_MODEL_NAME"
  --tensor-parallel-size "$TENSOR_PARALLEL_SIZE"

  # vLLM's default is 0.92 (config/cache.py). Two hundredths of an A100 are 1.7 GB, left to what its profile does not
  # see.
  --gpu-memory-utilization "${GPU_MEMORY_UTILIZATION:-0.90}"

  # The models take 131072 tokens; one such request would hold more than half the cache of the smallest fleet.
  --max-model-len "${MAX_MODEL_LEN:-32768}"

  # Bounds the position on the break-even curve. vLLM's default of 256 is beyond any gain at k=3 and T=0.7.
  --max-num-seqs "${MAX_NUM_SEQS:-128}"

  # Prefill and verification share this budget per step; unequal budgets would measure starved prefill instead of
  # speculation. 2048 is vLLM's own default for the A100 (engine/arg_utils.py get_batch_defaults, PR 17885): a step
  # full of prefill holds every stream. A speculative engine warns below 8192 (config/vllm.py); of 2048, 128 requests
  # at k=3 take 512 and leave 1536 for prefill.
  --max-num-batched-tokens "${MAX_NUM_BATCHED_TOKENS:-2048}"

  # Timings per request in the answer, for the router's records and the suite.
  --enable-per-request-metrics

  # The router asks for both many times a minute.
  --disable-access-log-for-endpoints "/health,/metrics"

  # Streams under way may end after SIGTERM; the default of 0 cuts them.
  --shutdown-timeout "${SHUTDOWN_TIMEOUT_S:-60}"
)
