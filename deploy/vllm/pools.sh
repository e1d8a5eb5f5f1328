# shellcheck shell=bash
# What the two pools of this machine share, sourced by baseline.sh and speculative.sh: 4x A100 80GB, two GPUs each.
# Whatever stands here is equal in both, so that a comparison measures speculation and nothing else.
# Every value can be given from outside; the defaults are for the hardware named above. Flags as of vLLM 0.33.0.

# int8: a W8A8 checkpoint. The A100 multiplies INT8 at twice its BF16 rate, and verification of drafts is compute.
# fp8: weights only, quantised while loading from the BF16 repository. The A100 has no FP8 units, so vLLM falls back to
#      Marlin kernels at the BF16 rate: the same memory, but speculation stops paying at about half the batch.
WEIGHTS="${WEIGHTS:-int8}"
case "$WEIGHTS" in
  int8) MODEL="${MODEL:-RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8}"; QUANTIZATION=() ;;
  fp8)  MODEL="${MODEL:-meta-llama/Llama-3.3-70B-Instruct}"; QUANTIZATION=(--quantization fp8) ;;
  *)    echo "WEIGHTS must be int8 or fp8, got '$WEIGHTS'" >&2; exit 2 ;;
esac

# Read by the two scripts that source this file.
# shellcheck disable=SC2034
POOL_FLAGS=(
  "${QUANTIZATION[@]}"
  --host "${HOST:-0.0.0.0}"

  # One name for both, whatever the repositories are called: the router sends the client's `model` on unchanged.
  --served-model-name "${SERVED_MODEL_NAME:-llama-3.3-70b}"

  # 72.7 GB of weights do not fit one GPU with room for a KV cache; over two they leave about 200,000 tokens of it.
  --tensor-parallel-size "${TENSOR_PARALLEL_SIZE:-2}"
  --gpu-memory-utilization "${GPU_MEMORY_UTILIZATION:-0.90}"
  --max-model-len "${MAX_MODEL_LEN:-32768}"

  # The position on the break-even curve is bounded by this. vLLM's default of 256 is beyond any gain at k >= 3.
  --max-num-seqs "${MAX_NUM_SEQS:-128}"

  # Prefill and verification share this budget per step; unequal budgets would measure starved prefill instead of
  # speculation. 2048 is vLLM's own default for the A100; a step full of
  # prefill holds every stream, for about 0.4 s at 2048 and 1.5 s at 8192 (model of the step time, TP2, INT8).
  # The speculative engine warns below 8192: of 2048, 128 requests at k=3 take 512 and leave 1536 for prefill.
  --max-num-batched-tokens "${MAX_NUM_BATCHED_TOKENS:-2048}"

  # Timings per request in the answer, for the router's records and the suite.
  --enable-per-request-metrics

  # The router asks for both many times a minute.
  --disable-access-log-for-endpoints "/health,/metrics"

  # Streams under way may end after SIGTERM; the default of 0 cuts them.
  --shutdown-timeout "${SHUTDOWN_TIMEOUT_S:-60}"
)
