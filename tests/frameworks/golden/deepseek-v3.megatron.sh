# shellcheck shell=bash disable=SC2034
# deepseek-v3 for Megatron-LM: tp 1 · cp 1 · pp 16 · dp 128 · EP 64 · ETP 1 on 2,048 ranks, 120 micro-batches of 1, bf16
# Settings as of NVIDIA/Megatron-LM at commit 000c4ac24f61.
# Its config does not tell, so that defaults hold: --rotary-base, --norm-epsilon, silu of --swiglu, --attention-dropout, --hidden-dropout.
# Source this file; data, tokenizer and optimizer come behind the arguments.
# Launch on node I, from 0, of 256 nodes:
#   torchrun --nnodes=256 --nproc-per-node=8 --node-rank=I --master-addr=NODE_0 --master-port=29500 pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or by Slurm, from the same plan and cluster:
#   nestplan export PLAN --cluster CLUSTER --to slurm -o job.sh
#   sbatch job.sh python pretrain_gpt.py "${MEGATRON_ARGS[@]}" …
# or with --to rankfile, hostfile or slurm-hosts by mpirun and srun.
MEGATRON_ARGS=(
  # model
  --num-layers 61
  --mtp-num-layers 1
  --make-vocab-size-divisible-by 128
  --hidden-size 7168
  --ffn-hidden-size 18432
  --num-attention-heads 128
  --multi-latent-attention
  --q-lora-rank 1536
  --kv-lora-rank 512
  --qk-head-dim 128
  --qk-pos-emb-head-dim 64
  --v-head-dim 128
  --max-position-embeddings 163840
  --position-embedding-type rope
  --rope-type rope
  --normalization RMSNorm
  --swiglu
  --disable-bias-linear
  --untie-embeddings-and-output-weights
  --vocab-size 129280
  --num-experts 256
  --moe-router-topk 8
  --moe-ffn-hidden-size 2048
  --moe-shared-expert-intermediate-size 2048
  --moe-layer-freq '([0]*3+[1]*58)'
  # parallelism
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 16
  --context-parallel-size 1
  --expert-model-parallel-size 64
  --expert-tensor-parallel-size 1
  --moe-token-dispatcher-type alltoall
  # what the stages hold
  --decoder-first-pipeline-num-layers 3
  --decoder-last-pipeline-num-layers 2
  # state
  --use-distributed-optimizer
  # recomputation
  --recompute-granularity selective
  --recompute-modules core_attn
  # communication beside computation
  --overlap-grad-reduce
  --overlap-param-gather
  # batch
  --micro-batch-size 1
  --global-batch-size 15360
  --seq-length 4096
  # precision
  --bf16
)
