#!/usr/bin/env bash
# Times whole `nestplan plan` processes, start-up and files included, and prints a table.
#   benchmark.sh [--runs N] [--ranks R] [--nest DIR [--reference FILE]] [--only PATTERN]
#   benchmark.sh --kernels
#     --runs N          runs of each search; the table has their least and their median (default 3)
#     --ranks R         under `mpirun -n R` (default: no mpirun)
#     --nest DIR        also the NEST instances of DIR/index.json
#     --reference FILE  seconds of another solver on them (default: DIR/reference.json, if there)
#     --only PATTERN    only searches whose name matches the shell pattern
#     --kernels         instead: the inner loops of the table against the rate at which the machine
#                       streams the same max-min over rows in L1 and L2, with AVX2 and without (needs
#                       Google Benchmark); fails if one is below half of it in L2
# Peak memory is that of one process (of mpirun's, under --ranks) and needs GNU time.
set -euo pipefail
export LC_ALL=C

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=${NESTPLAN_BUILD_DIR:-$source_dir/build}
runs=3 ranks=0 nest='' reference='' only='*' kernels=''
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --kernels) kernels=yes; shift ;;
    --runs|--ranks|--nest|--reference|--only)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $runs =~ ^[1-9][0-9]*$ && $ranks =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
if [ -n "$nest" ] && [ ! -f "$nest/index.json" ]; then
  echo "$nest/index.json: no such file" >&2; exit 2
fi
if [ -z "$reference" ] && [ -n "$nest" ] && [ -f "$nest/reference.json" ]; then
  reference=$nest/reference.json
fi
[ -z "$reference" ] || [ -f "$reference" ] || { echo "$reference: no such file" >&2; exit 2; }

# The best of five runs each. A loop of the table and the streams it is held against have the same
# instruction set and length of row.
compare_kernels() {
  local bench=$build_dir/tests/bench/nestplan_bench
  if [ -z "${NESTPLAN_BUILD_DIR:-}" ]; then
    build_dir=$source_dir/build/benchmarks bench=$source_dir/build/benchmarks/tests/bench/nestplan_bench
    cmake -S "$source_dir" -B "$build_dir" -DCMAKE_BUILD_TYPE=Release -DNESTPLAN_BENCHMARKS=ON >&2
    cmake --build "$build_dir" --target nestplan_bench --parallel "$(nproc)" >&2
  fi
  [ -x "$bench" ] || { echo "$bench: not built (-DNESTPLAN_BENCHMARKS=ON)" >&2; return 2; }
  "$bench" --benchmark_filter='/(avx2|portable)/' --benchmark_repetitions=5 \
    --benchmark_min_time=0.1 --benchmark_format=csv 2>/dev/null | awk -F, '
    BEGIN {printf "%-18s %-10s %6s %12s %12s %6s\n", "loop", "with", "cells", "cells/s", "stream", "ratio"}
    {gsub(/"/, "", $1); count = split($1, part, "/")}
    count == 3 && part[3] ~ /^[0-9]+$/ {
      if (!($1 in best)) order[++rows] = $1
      if ($7 > best[$1]) best[$1] = $7
    }
    END {
      for (i = 1; i <= rows; ++i) {
        split(order[i], part, "/")
        if (part[1] == "stream") continue
        stream = best["stream/" part[2] "/" part[3]]
        ratio = best[order[i]] / stream
        printf "%-18s %-10s %6s %12.3g %12.3g %6.2f\n", part[1], part[2], part[3], best[order[i]], stream, ratio
        if (part[3] > 8192 && ratio < 0.5) slow = 1
        ++compared
      }
      exit slow || !compared
    }'
}
if [ -n "$kernels" ]; then compare_kernels; exit; fi

nestplan=$build_dir/src/cli/nestplan
[ -n "${NESTPLAN_BUILD_DIR:-}" ] || nestplan=$("$source_dir/mpi_runs/build.sh")
[ -x "$nestplan" ] || { echo "$nestplan: not built" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
launcher=()
if [ "$ranks" -gt 0 ]; then
  launcher=(mpirun -n "$ranks")
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  # containers have no user but root
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi
gnu_time=()
if /usr/bin/time -f %M true 2>/dev/null; then gnu_time=(/usr/bin/time -q -f %M -o "$scratch/peak"); fi

# One JSON object a line, without blanks: what index.json and reference.json hold.
objects() { tr -d ' \n\r\t' <"$1" | sed 's/{"id":/\n&/g' | grep '^{"id":'; }
# field OBJECT KEY: a string, a number or the inside of an array.
field() {
  [[ $1 =~ \"$2\":(\"([^\"]*)\"|\[([^]]*)\]|([-+.0-9eE]+)) ]] || return 1
  echo "${BASH_REMATCH[2]}${BASH_REMATCH[3]}${BASH_REMATCH[4]}"
}

declare -A reference_s
if [ -n "$reference" ]; then
  while IFS= read -r object; do
    if [ "$(field "$object" status)" = ok ]; then
      reference_s[$(field "$object" id)]=$(field "$object" wall_s)
    fi
  done < <(objects "$reference")
fi

# search NAME FLAG…: runs it, prints its line and keeps it for the summary.
search() {
  local name=$1 run begin end status outcome peak=- least median ratio=-
  shift
  # shellcheck disable=SC2053  # a pattern
  [[ $name == $only ]] || return 0
  : >"$scratch/seconds"
  for ((run = 0; run < runs; ++run)); do
    begin=${EPOCHREALTIME/./}
    status=0
    "${gnu_time[@]}" "${launcher[@]}" "$nestplan" plan "$@" -q --json \
      >"$scratch/out" 2>"$scratch/err" || status=$?
    end=${EPOCHREALTIME/./}
    case $status in
      0) outcome=$(printf %.6g "$(field "$(tr -d ' \n' <"$scratch/out")" iteration_time_s)") ;;
      3) outcome=infeasible ;;
      *) cat "$scratch/err" >&2; echo "$name: exit code $status" >&2; exit 1 ;;
    esac
    echo $((end - begin)) >>"$scratch/seconds"
    if [ ${#gnu_time[@]} -gt 0 ]; then
      peak=$(tail -1 "$scratch/peak" | awk '{printf "%.1f", $1 / 1024}')
    fi
  done
  read -r least median < <(sort -n "$scratch/seconds" | awk '
    {t[NR] = $1 / 1e6}
    END {printf "%.4f %.4f\n", t[1], (t[int((NR + 1) / 2)] + t[int((NR + 2) / 2)]) / 2}')
  if [ -n "${reference_s[$name]:-}" ]; then
    ratio=$(awk -v r="${reference_s[$name]}" -v t="$least" 'BEGIN {printf "%.1f", r / t}')
  fi
  printf '%-44s %10s %10s %10s %14s %10s %9s\n' "$name" "$least" "$median" "$peak" "$outcome" \
    "${reference_s[$name]:--}" "$ratio"
  echo "$least $ratio" >>"$scratch/table"
}

printf '%-44s %10s %10s %10s %14s %10s %9s\n' search 'min [s]' 'median [s]' 'peak [MiB]' \
  'iteration [s]' 'other [s]' 'ratio'
: >"$scratch/table"

inputs=$source_dir/inputs
llama405=(--model "$inputs/models/llama-3.1-405b" --cluster "$inputs/clusters/h100-16384.json"
          --global-batch 2048 --seq 8192)
search llama-3.1-405b-16384-even "${llama405[@]}"
search llama-3.1-405b-16384-uneven "${llama405[@]}" --allow-uneven-batch

if [ -n "$nest" ]; then
  while IFS= read -r object; do
    search "$(field "$object" id)" --graph "$nest/$(field "$object" graph)" \
      --cluster "$nest/$(field "$object" cluster)" --allow-uneven-batch \
      --global-batch "$(field "$object" global_batch)" \
      --state-bytes "$(field "$object" state_bytes)"
  done < <(objects "$nest/index.json")
fi

awk '
  {total += $1; if ($1 > slowest) slowest = $1}
  $2 != "-" {++compared; logs += log($2); if (least == "" || $2 < least) least = $2}
  END {
    if (NR == 0) {print "no search has such a name"; exit 1}
    printf "%d searches: %.2f s together, %.2f s the slowest\n", NR, total, slowest
    if (compared)
      printf "%d compared: %.1f times as fast in the geometric mean, %.1f at least\n", compared,
             exp(logs / compared), least
  }' "$scratch/table"
