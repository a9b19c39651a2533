#!/usr/bin/env bash
# Table 4 of the NEST paper: how long searches take, on 1,024 H100s of the spine-leaf network. The
# reported minutes are those of the authors' machines and programs.
#   table4.sh [--full] [--output DIR] [--nestplan FILE]
#     --full          all methods (default: those that the paper reports)
#     --output DIR    is not used
#     --nestplan FILE the binary (default: built from these sources)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
options "$@"

methods=nestplan,mist
[ -z "$full" ] || methods=nestplan,manual,mcmc,phaze,alpa,mist
# own MODEL DIRECTORY SEQUENCE
own() {
  compare "$1" 1024 1 --model "$inputs/models/$2" --seq "$3" --global-batch 4096 \
    --cluster "$inputs/clusters/h100-spine-leaf-1024.json" --methods "$methods"
}

own gpt-3-35b gpt-3-35b 2048
own llama3 llama-3.1-70b 4096
own llama2 llama-2-7b 4096
own bert bert-large 512
awk '
  FILENAME ~ /reported\.csv$/ {
    split($0, field, ",")
    if (field[1] == "table4") reported[field[2], field[5]] = field[6]
    next
  }
  FNR == 1 {printf "%-12s %-10s %12s %14s\n", "model", "method", "search s", "reported min"}
  {
    split($0, field, "\t")
    printf "%-12s %-10s %12.3f %14s\n", field[1], field[4], field[6], reported[field[1], field[4]]
  }' "$here/reported.csv" "$results"
