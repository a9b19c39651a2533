#!/usr/bin/env bash
# From a fresh checkout to a plan: installs what is needed, builds, and plans the training of
# Llama 3.1 70B on 1,024 H100s. Leaves plan.json in the current directory.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nestplan=$("$source_dir/mpi_runs/build.sh")

"$nestplan" plan \
  --model "$source_dir/inputs/models/llama-3.1-70b" \
  --cluster "$source_dir/inputs/clusters/h100-spine-leaf-1024.json" \
  --global-batch 1024 --seq 8192 --output plan.json
echo "the plan is in $PWD/plan.json" >&2
