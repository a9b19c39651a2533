#!/usr/bin/env bash
# Figure 7 of the NEST paper: 1,024 H100s on an oversubscribed spine-leaf network, global batch
# 4,096, micro-batch 1. Of this figure means are reported.
#   figure7.sh [--full] [--output DIR] [--nestplan FILE]
#     --full          micro-batches 2 and 4 as well
#     --output DIR    where figure7.svg goes (default: here)
#     --nestplan FILE the binary (default: built from these sources)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
options "$@"

micro_batches=1
[ -z "$full" ] || micro_batches='1 2 4'

# own MODEL DIRECTORY SEQUENCE
own() {
  local micro_batch
  for micro_batch in $micro_batches; do
    compare "$1" 1024 "$micro_batch" --model "$inputs/models/$2" --seq "$3" --global-batch 4096 \
      --cluster "$inputs/clusters/h100-spine-leaf-1024.json"
  done
}

own bert bert-large 512
own llama2 llama-2-7b 4096
own llama3 llama-3.1-70b 4096
own mixtral mixtral-8x7b 4096
own gpt3 gpt-3-175b 2048
report figure7 '1,024 H100s on spines and leaves' micro_batch
