# shellcheck shell=bash disable=SC2034
# llama-3.1-405b for Megatron-LM: tp 8 · cp 1 · pp 16 · dp 128 on 16,384 ranks, 16 micro-batches of 1, bf16
# Settings as of NVIDIA/Megatron-LM at commit 000c4ac24f61.
# Its config does not tell, so that defaults hold: --rotary-base, --norm-epsilon, silu of --swiglu, --attention-dropout, --hidden-dropout.
# Source this file; data, tokenizer and optimizer come behind the arguments.
# Launch on node I, from 0, of 2048 nodes:
#   torchrun --nnodes=2048 --nproc-per-node=8 --node-rank=I --master-addr=NODE_0 --master-port=29500 pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or by Slurm, from the same plan and cluster:
#   nestplan export PLAN --cluster CLUSTER --to slurm -o job.sh
#   sbatch job.sh python pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or with --to rankfile, hostfile or slurm-hosts by mpirun and srun.
export CUDA_DEVICE_MAX_CONNECTIONS=1
MEGATRON_ARGS=(
  # model
  --num-layers 126
  --make-vocab-size-divisible-by 128
  --hidden-size 16384
  --ffn-hidden-size 53248
  --num-attention-heads 128
  --kv-channels 128
  --group-query-attention
  --num-query-groups 8
  --max-position-embeddings 131072
  --position-embedding-type rope
  --normalization RMSNorm
  --swiglu
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --vocab-size 128256
  # parallelism
  --tensor-model-parallel-size 8
  --sequence-parallel
  --pipeline-model-parallel-size 16
  --context-parallel-size 1
  --expert-model-parallel-size 1
  # what the stages hold
  --decoder-first-pipeline-num-layers 7
  --decoder-last-pipeline-num-layers 7
  # state
  --use-distributed-optimizer
  # communication beside computation
  --overlap-grad-reduce
  --overlap-param-gather
  # batch
  --micro-batch-size 1
  --global-batch-size 2048
  --seq-length 8192
  # precision
  --bf16
)
