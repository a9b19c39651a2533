#!/usr/bin/env bash
# Installs what is needed, builds nestplan from these sources, and prints where the binary is.
# The build directory is shared with tests/run.sh; one that exists keeps its configuration.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$source_dir/build
"$source_dir/mpi_runs/install_dependencies.sh"
if [ ! -f "$build_dir/CMakeCache.txt" ]; then
  cmake -S "$source_dir" -B "$build_dir" -DCMAKE_BUILD_TYPE=Release -DNESTPLAN_TESTS=OFF >&2
fi
cmake --build "$build_dir" --target nestplan --parallel "$(nproc)" >&2
echo "$build_dir/src/cli/nestplan"
