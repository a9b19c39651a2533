#!/usr/bin/env bash
# Holds the lines that no compiler holds. Prints every violation; fails if there is one.
#   lint.sh SOURCE_DIR CHECK     CHECK: includes | layout | paths | format
set -uo pipefail
cd "$1" || exit 2
violations=0
complain() { echo "$*"; violations=$((violations + 1)); }

# Modules that a module may include; itself is understood.
allowed_for() {
  case "$1" in
    util) echo "" ;;
    model) echo "util" ;;
    network) echo "util model" ;;
    placement) echo "util model network" ;;
    targets) echo "util model" ;;
    frameworks) echo "util model network placement targets" ;;
    cost) echo "util model network" ;;
    calibrate) echo "util model network cost" ;;
    simulate) echo "util model network cost" ;;
    report) echo "util model network placement cost simulate" ;;
    lattice) echo "util model" ;;
    solver) echo "util model network targets cost lattice" ;;
    baselines) echo "util model network targets cost lattice solver" ;;
    io) echo "util model network targets cost solver mpi" ;;  # of solver: snapshot.hpp
    importers) echo "util model network cost io" ;;
    mpi) echo "util" ;;
    distributed) echo "util model network cost lattice solver mpi" ;;
    cli) echo "util model network placement targets frameworks cost calibrate simulate report lattice solver baselines io importers mpi distributed" ;;
    *) return 1 ;;
  esac
}

check_includes() {
  local directory module allowed file included
  for directory in src/*/ include/nestplan/*/; do
    module=$(basename "$directory")
    allowed=$(allowed_for "$module") || { complain "$directory: module without a place in tests/lint/lint.sh"; continue; }
    while IFS=: read -r file included; do
      case " $module $allowed " in
        *" $included "*) ;;
        *) complain "$file: module $module includes $included (it may include: ${allowed:-nothing})" ;;
      esac
    done < <(find "$directory" -name '*.[ch]pp' -exec grep -HoE '^ *# *include +"[^"]+/' {} + |
             sed -E 's|^([^:]+): *# *include +"(nestplan/)?([^/"]+)/.*|\1:\3|')
  done
  while read -r file; do complain "$file: <mpi.h> outside mpi, distributed, io and cli"; done < <(
    grep -rlE '^ *# *include +<mpi\.h>' src include | grep -vE '(^src|nestplan)/(mpi|distributed|io|cli)/')
  while read -r file; do complain "$file: <hdf5.h> outside src/io"; done < <(
    grep -rlE '^ *# *include +<hdf5\.h>' src include | grep -v '^src/io/')
  while read -r file; do complain "$file: no #pragma once"; done < <(
    find src include tests -name '*.hpp' -exec grep -L '^#pragma once' {} +)
}

tracked_files() { git ls-files 2>/dev/null || true; }

check_layout() {
  local entry
  [ -n "$(tracked_files)" ] || { echo "SKIP: not a git checkout with files"; exit 77; }
  for entry in $(tracked_files | cut -d/ -f1 | sort -u); do
    case "$entry" in
      .*|CMakeLists.txt|src|include|mpi_runs|inputs|tests|slurm|README.md|LICENSE) ;;
      *) complain "$entry: not a top-level entry of the layout" ;;
    esac
  done
  for entry in .ci/run tests/run.sh mpi_runs/quickstart.sh README.md LICENSE CMakeLists.txt; do
    [ -e "$entry" ] || complain "$entry: missing"
  done
}

# Absolute paths of somebody's machine. System paths and /tmp/… in examples are none of those.
check_paths() {
  while read -r line; do complain "$line"; done < <(
    grep -rnIE '(^|[^A-Za-z0-9_.$}/])/(home|root|Users|work|workspace|mnt|scratch)/' \
      src include tests mpi_runs inputs slurm README.md CMakeLists.txt .ci |
      grep -v '^tests/lint/lint.sh:')
}

check_format() {
  command -v clang-format >/dev/null || { echo "SKIP: clang-format is not installed"; exit 77; }
  # Prints what differs, once per place, for which `clang-format -i` is the remedy.
  while read -r line; do complain "$line"; done < <(
    find src include tests -name '*.[ch]pp' -print0 |
      xargs -0 -n 40 -P "$(nproc)" clang-format --dry-run 2>&1 | grep 'clang-formatted')
}

case "${2:-}" in
  includes) check_includes ;;
  layout) check_layout ;;
  paths) check_paths ;;
  format) check_format ;;
  *) echo "usage: lint.sh SOURCE_DIR includes|layout|paths|format" >&2; exit 2 ;;
esac
[ "$violations" -eq 0 ]
