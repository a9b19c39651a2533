#!/usr/bin/env bash
# From a fresh checkout to a plan: installs what is needed, builds, and plans the training of
# Llama 3.1 70B on 1,024 H100s. Leaves plan.json in the current directory.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$source_dir/build

"$source_dir/mpi_runs/install_dependencies.sh"

# The build directory is shared with tests/run.sh; one that exists keeps its configuration.
if [ ! -f "$build_dir/CMakeCache.txt" ]; then
  cmake -S "$source_dir" -B "$build_dir" -DCMAKE_BUILD_TYPE=Release -DNESTPLAN_TESTS=OFF >&2
fi
cmake --build "$build_dir" --target nestplan --parallel "$(nproc)" >&2

"$build_dir/src/cli/nestplan" plan \
  --model "$source_dir/inputs/models/llama-3.1-70b" \
  --cluster "$source_dir/inputs/clusters/h100-spine-leaf-1024.json" \
  --global-batch 1024 --seq 8192 --output plan.json
echo "the plan is in $PWD/plan.json" >&2
