# shellcheck shell=bash disable=SC2034
# gpt-3-175b for Megatron-LM: tp 8 · cp 1 · pp 8 · dp 8 · vpp 6 on 512 ranks, 192 micro-batches of 1, bf16
# Settings as of NVIDIA/Megatron-LM at commit 000c4ac24f61.
# Its config does not tell, so that defaults hold: --norm-epsilon, gelu, --attention-dropout.
# Source this file; data, tokenizer and optimizer come behind the arguments.
# Launch on node I, from 0, of 64 nodes:
#   torchrun --nnodes=64 --nproc-per-node=8 --node-rank=I --master-addr=NODE_0 --master-port=29500 pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or by Slurm, from the same plan and cluster:
#   nestplan export PLAN --cluster CLUSTER --to slurm -o job.sh
#   sbatch job.sh python pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or with --to rankfile, hostfile or slurm-hosts by mpirun and srun.
export CUDA_DEVICE_MAX_CONNECTIONS=1
MEGATRON_ARGS=(
  # model
  --num-layers 96
  --make-vocab-size-divisible-by 128
  --hidden-size 12288
  --ffn-hidden-size 49152
  --num-attention-heads 96
  --kv-channels 128
  --max-position-embeddings 2048
  --position-embedding-type learned_absolute
  --normalization LayerNorm
  --hidden-dropout 0.1
  --vocab-size 50257
  # parallelism
  --tensor-model-parallel-size 8
  --sequence-parallel
  --pipeline-model-parallel-size 8
  --context-parallel-size 1
  --expert-model-parallel-size 1
  # what the stages hold
  --num-virtual-stages-per-pipeline-rank 6
  # recomputation
  --recompute-granularity selective
  --recompute-modules core_attn
  # communication beside computation
  --overlap-grad-reduce
  # batch
  --micro-batch-size 1
  --global-batch-size 1536
  --seq-length 2048
  # precision
  --bf16
)
