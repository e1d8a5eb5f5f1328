# shellcheck shell=bash disable=SC2034
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# Llama-3.3-70B on 4x A100 80GB, split 2 + 2, 8-bit weights. Both engines on one machine: GPUs 0 and 1 plain, 2 and 3
# speculative.
#
# Memory of one GPU, computed and not measured (vLLM measures while it starts, and logs the tokens that fit):
#
#   A100 80GB: 85.0 GB x 0.90                       76.5 GB
#   - activations, CUDA graphs, NCCL                 4.0 GB  assumed
#   - (68.5e9 x 1 B + 2.1e9 x 2 B) / 2 GPUs         36.3 GB  weights, 72.7 GB in all
#   = for keys and values                           36.2 GB
#   / (80 layers x 8 heads x 128 x 2 x 2 B / 2 GPUs) = 163,840 B per token
#   = 220,710 tokens of context for all requests of the plain pool together
#
#   engine                   weights  drafter  KV per token  tokens of KV  requests of 32768  tokens each of 128
#   baseline, ngram, suffix  36.3 GB  -        163,840 B     220,710       6.7                1,724
#   speculative, dynamic     36.3 GB  1.6 GB   165,888 B     208,314       6.4                1,627
#   draft-model              36.3 GB  1.2 GB   180,224 B     193,788       5.9                1,513
#
# DRAFT_SAMPLE_METHOD=probabilistic takes another 0.1 GB.

# SCHEDULE is for dynamic.sh alone: [first, last batch, k], the best k of each batch size by the model of the step
# time with the published, unverified acceptance at T=0.7.
WEIGHTS="${WEIGHTS:-int8}"
case "$WEIGHTS" in
  # int8: a W8A8 checkpoint. The A100 multiplies INT8 at twice its BF16 rate, and verifying drafts is compute.
  int8)
    MODEL="${MODEL:-RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8}"
    QUANTIZATION=()
    SCHEDULE="${SCHEDULE:-[[1,35,3],[36,60,2],[61,128,1]]}"
    ;;
  # fp8: weights only, quantised while loading from the BF16 repository. The A100 has no FP8 units, so vLLM falls back
  # to Marlin kernels at the BF16 rate: the same memory, but speculation stops paying at half the batch.
  fp8)
    MODEL="${MODEL:-meta-llama/Llama-3.3-70B-Instruct}"
    QUANTIZATION=(--quantization fp8)
    SCHEDULE="${SCHEDULE:-[[1,17,3],[18,29,2],[30,66,1],[67,128,0]]}"
    ;;
  *) echo "WEIGHTS must be int8 or fp8, got '$WEIGHTS'" >&2; exit 2 ;;
esac

SERVED_MODEL_NAME="${SERVED_MODEL_NAME:-llama-3.3-70b}"
TENSOR_PARALLEL_SIZE="${TENSOR_PARALLEL_SIZE:-2}"
BASELINE_GPUS="${BASELINE_GPUS:-0,1}"
SPECULATIVE_GPUS="${SPECULATIVE_GPUS:-2,3}"
HEAD="${HEAD:-RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3}"
DRAFT_MODEL="${DRAFT_MODEL:-meta-llama/Llama-3.2-1B-Instruct}"
