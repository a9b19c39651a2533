#!/usr/bin/env bash
# Figure 5 of the NEST paper: five models on 64 to 1,024 TPUv4-like devices of a fat tree, global
# batch 4,096, micro-batch 1: the planner beside its baselines, and beside what the paper reports.
#   figure5.sh [--full] [--nest DIR] [--output DIR] [--nestplan FILE]
#     --full          512 devices as well
#     --nest DIR      the layer graphs and clusters of the paper's artifact in nestplan's formats,
#                     instead of the models and clusters of these sources
#     --output DIR    where figure5.svg goes (default: here)
#     --nestplan FILE the binary (default: built from these sources)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
options "$@"

sizes='64 128 256 1024'
[ -z "$full" ] || sizes='64 128 256 512 1024'

# own MODEL DIRECTORY SEQUENCE DEVICES
own() {
  compare "$1" "$4" 1 --model "$inputs/models/$2" --seq "$3" --global-batch 4096 \
    --cluster "$inputs/clusters/tpuv4-fat-tree-$4.json"
}
# theirs MODEL GRAPH RECOMPUTATION DEVICES: with the artifact's objective and bytes per parameter
theirs() {
  compare "$1" "$4" 1 --graph "$nest/tpuv4_fatTree.$2_mbs1.graph.json" --global-batch 4096 \
    --cluster "$nest/tpuv4_fatTree-$4.cluster.json" --objective paper --allow-uneven-batch \
    --state-bytes 2,2,0 --zero 0 --recompute "$3"
}

for devices in $sizes; do
  if [ -z "$nest" ]; then
    own bert bert-large 512 "$devices"
    own llama2 llama-2-7b 4096 "$devices"
    own llama3 llama-3.1-70b 4096 "$devices"
    own mixtral mixtral-8x7b 4096 "$devices"
    own gpt3 gpt-3-175b 2048 "$devices"
  else
    theirs bert megatronbert none "$devices"
    theirs llama2 llama2 full "$devices"
    theirs llama3 llama3 full "$devices"
    theirs mixtral mixtral full "$devices"
    theirs gpt3 megatrongpt3 full "$devices"
  fi
done
sort -s -t "$(printf '\t')" -k1,1 "$results" -o "$results"
report figure5 'Five models on a fat tree' devices
