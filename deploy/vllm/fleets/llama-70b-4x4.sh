# shellcheck shell=bash disable=SC2034
# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file.
#
# Llama-3.3-70B in BF16 on two nodes of 4x A100 80GB. One engine per node and no traffic between the nodes: run
# baseline.sh on one, speculative.sh on the other.
#
# Memory of one GPU, computed and not measured (vLLM measures while it starts, and logs the tokens that fit):
#
#   A100 80GB: 85.0 GB x 0.90                       76.5 GB
#   - activations, CUDA graphs, NCCL                 4.0 GB  assumed
#   - (68.5e9 x 2 B + 2.1e9 x 2 B) / 4 GPUs         35.3 GB  weights, 141.1 GB in all
#   = for keys and values                           37.2 GB
#   / (80 layers x 8 heads x 128 x 2 x 2 B / 4 GPUs) = 81,920 B per token
#   = 454,245 tokens of context for all requests of the plain pool together
#
#   engine                   weights  drafter  KV per token  tokens of KV  requests of 32768  tokens each of 128
#   baseline, ngram, suffix  35.3 GB  -        81,920 B      454,245       13.9               3,548
#   speculative, dynamic     35.3 GB  1.0 GB   82,944 B      436,539       13.3               3,410
#   draft-model              35.3 GB  0.6 GB   90,112 B      406,093       12.4               3,172
#
# DRAFT_SAMPLE_METHOD=probabilistic takes another 0.1 GB.

# SCHEDULE is for dynamic.sh alone: [first, last batch, k], the best k of each batch size by the model of the step
# time with the published, unverified acceptance at T=0.7.
WEIGHTS="${WEIGHTS:-bf16}"
case "$WEIGHTS" in
  # bf16: as published, and what the heads were trained on.
  bf16)
    MODEL="${MODEL:-meta-llama/Llama-3.3-70B-Instruct}"
    QUANTIZATION=()
    SCHEDULE="${SCHEDULE:-[[1,34,3],[35,57,2],[58,128,1]]}"
    ;;
  *) echo "WEIGHTS must be bf16, got '$WEIGHTS'" >&2; exit 2 ;;
esac

SERVED_MODEL_NAME="${SERVED_MODEL_NAME:-llama-3.3-70b}"
TENSOR_PARALLEL_SIZE="${TENSOR_PARALLEL_SIZE:-4}"
BASELINE_GPUS="${BASELINE_GPUS:-0,1,2,3}"
SPECULATIVE_GPUS="${SPECULATIVE_GPUS:-0,1,2,3}"
HEAD="${HEAD:-RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3}"
DRAFT_MODEL="${DRAFT_MODEL:-meta-llama/Llama-3.2-1B-Instruct}"
