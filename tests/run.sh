#!/usr/bin/env bash
# Installs what is needed, builds with warnings as errors, runs all tests.
#   run.sh [--soak] [CTEST ARGUMENTS…]    for example: run.sh -L cli
# --soak sets NESTPLAN_SOAK=1: tests on random instances then try many more of them.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$source_dir/build
if [ "${1:-}" = --soak ]; then
  export NESTPLAN_SOAK=1
  shift
fi

"$source_dir/mpi_runs/install_dependencies.sh" --tests

options=(-DCMAKE_BUILD_TYPE=Release -DNESTPLAN_WERROR=ON -DNESTPLAN_TESTS=ON)
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$source_dir" -B "$build_dir" "${options[@]}"
cmake --build "$build_dir" --parallel "$(nproc)"
ctest --test-dir "$build_dir" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"
