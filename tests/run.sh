#!/usr/bin/env bash
# Installs what is needed, builds with warnings as errors, runs all tests, and runs those of the
# libraries once more under the address and undefined-behaviour sanitizers.
#   run.sh [--soak] [--no-sanitizers] [CTEST ARGUMENTS…]    for example: run.sh -L cli
# --soak sets NESTPLAN_SOAK=1: tests on random instances then try many more of them.
# With arguments for ctest the sanitizers are left out.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$source_dir/build
sanitizers=1
while [ $# -gt 0 ]; do
  case "$1" in
    --soak) export NESTPLAN_SOAK=1 ;;
    --no-sanitizers) sanitizers=0 ;;
    *) break ;;
  esac
  shift
done

"$source_dir/mpi_runs/install_dependencies.sh" --tests

common=(-DNESTPLAN_WERROR=ON -DNESTPLAN_TESTS=ON)
if command -v ccache >/dev/null; then common+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$source_dir" -B "$build_dir" -DCMAKE_BUILD_TYPE=Release "${common[@]}"
cmake --build "$build_dir" --parallel "$(nproc)"
ctest --test-dir "$build_dir" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"

[ "$sanitizers" = 1 ] && [ $# -eq 0 ] || exit 0
# Line tables alone (-g1) are enough for a report and half as much to compile; random instances are
# a fifth of the usual, since each takes several times as long.
sanitize_dir=$build_dir/sanitize
cmake -S "$source_dir" -B "$sanitize_dir" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DNESTPLAN_SANITIZE=ON "${common[@]}"
cmake --build "$sanitize_dir" --target nestplan_core_tests --parallel "$(nproc)"
NESTPLAN_SHARE=0.2 UBSAN_OPTIONS=print_stacktrace=1 \
  LSAN_OPTIONS="suppressions=$source_dir/tests/support/leaks.supp" \
  ctest --test-dir "$sanitize_dir" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  -LE '^(install|lint|mpi|slurm)$' -E '_NOT_BUILT$'
