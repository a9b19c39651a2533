#!/usr/bin/env bash
# Figure 6 of the NEST paper: the micro-batch on 256 devices of the fat tree, global batch 4,096.
#   figure6.sh [--full] [--output DIR] [--nestplan FILE]
#     --full          all five models of Figure 5 (default: the three of Figure 6)
#     --output DIR    where figure6.svg goes (default: here)
#     --nestplan FILE the binary (default: built from these sources)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
options "$@"

# own MODEL DIRECTORY SEQUENCE
own() {
  local micro_batch
  for micro_batch in 1 2 4 8; do
    compare "$1" 256 "$micro_batch" --model "$inputs/models/$2" --seq "$3" --global-batch 4096 \
      --cluster "$inputs/clusters/tpuv4-fat-tree-256.json"
  done
}

own bert bert-large 512
own llama2 llama-2-7b 4096
own llama3 llama-3.1-70b 4096
if [ -n "$full" ]; then
  own mixtral mixtral-8x7b 4096
  own gpt3 gpt-3-175b 2048
fi
report figure6 'Micro-batches on 256 devices' micro_batch
