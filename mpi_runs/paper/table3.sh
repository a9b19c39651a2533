#!/usr/bin/env bash
# Table 3 of the NEST paper: plans for devices with little memory on the spine-leaf network, where
# ZeRO has to help: Llama 3 70B with 24 GB, BERT-large with 120 MB.
#   table3.sh [--full] [--output DIR] [--nestplan FILE]
#     --full          every method, not only the planner
#     --output DIR    where the plans go, as table3-MODEL.plan.json (default: here)
#     --nestplan FILE the binary (default: built from these sources)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
options "$@"

# tight MODEL DIRECTORY SEQUENCE MEMORY: nothing is left to driver and framework, as in the paper
tight() {
  local cluster=$scratch/$1.json status=0
  sed "s/\"memory\": \"[^\"]*\"/\"memory\": \"$4\"/" "$inputs/clusters/h100-spine-leaf-1024.json" >"$cluster"
  local arguments=(--model "$inputs/models/$2" --seq "$3" --cluster "$cluster" --global-batch 4096
    --micro-batch 1 --recompute none,full --per-stage-strategies --context-reserve '0 B'
    --communicator-buffer '0 B' --memory-margin 0% -q)
  echo "$2 with $4:"
  "$nestplan" plan "${arguments[@]}" -o "$output/table3-$1.plan.json" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
  awk -F, -v model="$1" '$1 == "table3" && $2 == model {print "reported:   " $6}' "$here/reported.csv"
  [ -z "$full" ] || "$nestplan" compare "${arguments[@]}" || [ $? = 3 ]
  echo
}

tight llama3 llama-3.1-70b 4096 '24 GB'
tight bert bert-large 512 '120 MB'
