# shellcheck shell=bash disable=SC2034
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# Llama-3.1-8B in BF16, one A100 80GB each. Both engines on one machine: GPU 0 plain, GPU 1 speculative.
#
# Memory of one GPU, computed and not measured (vLLM measures while it starts, and logs the tokens that fit):
#
#   A100 80GB: 85.0 GB x 0.90                       76.5 GB
#   - activations, CUDA graphs, NCCL                 4.0 GB  assumed
#   - (7.0e9 x 2 B + 1.1e9 x 2 B)                   16.1 GB  weights, 16.1 GB in all
#   = for keys and values                           56.4 GB
#   / (32 layers x 8 heads x 128 x 2 x 2 B) = 131,072 B per token
#   = 430,511 tokens of context for all requests of the plain pool together
#
#   engine                   weights  drafter  KV per token  tokens of KV  requests of 32768  tokens each of 128
#   baseline, ngram, suffix  16.1 GB  -        131,072 B     430,511       13.1               3,363
#   speculative, dynamic     16.1 GB  0.8 GB   135,168 B     411,182       12.5               3,212
#   draft-model              16.1 GB  2.5 GB   163,840 B     329,324       10.1               2,572
#
# DRAFT_SAMPLE_METHOD=probabilistic takes another 0.1 GB.

# SCHEDULE is for dynamic.sh alone: [first, last batch, k], the best k of each batch size by the model of the step
# time with the published, unverified acceptance at T=0.7.
WEIGHTS="${WEIGHTS:-bf16}"
case "$WEIGHTS" in
  # bf16: as published, and what the heads were trained on.
  bf16)
    MODEL="${MODEL:-meta-llama/Llama-3.1-8B-Instruct}"
    QUANTIZATION=()
    SCHEDULE="${SCHEDULE:-[[1,34,3],[35,57,2],[58,128,1]]}"
    ;;
  *) echo "WEIGHTS must be bf16, got '$WEIGHTS'" >&2; exit 2 ;;
esac

SERVED_MODEL_NAME="${SERVED_MODEL_NAME:-llama-3.1-8b}"
TENSOR_PARALLEL_SIZE="${TENSOR_PARALLEL_SIZE:-1}"
BASELINE_GPUS="${BASELINE_GPUS:-0}"
SPECULATIVE_GPUS="${SPECULATIVE_GPUS:-1}"
HEAD="${HEAD:-RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3}"
DRAFT_MODEL="${DRAFT_MODEL:-meta-llama/Llama-3.2-1B-Instruct}"
