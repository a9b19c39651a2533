#!/usr/bin/env bash
# Plans one training for a fat tree of 1,024 H100s whose links between scalable units of 256 become
# fewer, and prints how the best plan changes with them.
#   oversubscription.sh [OPTION…] [-- PLAN ARGUMENTS…]     for example:
#   oversubscription.sh --ratios "1 4 16" -- --global-batch 1024 --seq 4096
#     --ratios LIST     oversubscriptions of the outermost level; the plan for the first is what the
#                       others are compared with (default "1 2 4 8")
#     --model DIR       the model (default: Llama 3.1 70B of these sources)
#     --nestplan FILE   the binary (default: built from these sources)
#     --csv FILE        the table as CSV as well
# Without arguments after -- the batch is 512 sequences of 8,192 tokens. Copies of a stage in one
# pod are "inner", pods are "outer"; shares are of the iteration. The last column is the time of
# the first plan on that network.
set -euo pipefail
export LC_ALL=C

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ratios='1 2 4 8' model=$source_dir/inputs/models/llama-3.1-70b nestplan='' csv=''
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
arguments=(--global-batch 512 --seq 8192)
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --ratios|--model|--nestplan|--csv)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    --) shift; [ $# -eq 0 ] || arguments=("$@"); break ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $ratios =~ ^\ *[1-9][0-9.]*(\ +[1-9][0-9.]*)*\ *$ ]] || { usage >&2; exit 2; }
[ -n "$nestplan" ] || nestplan=$("$source_dir/mpi_runs/build.sh")
[ -x "$nestplan" ] || { echo "$nestplan: no such program" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# value FILE KEY: the first value of that key
value() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1" | head -1; }
# share FILE KEY: of the iteration, in percent
share() {
  awk -v part="$(value "$1" "$2")" -v all="$(value "$1" iteration_time_s)" \
    'BEGIN {printf "%.1f\n", 100 * part / all}'
}
# run COMMAND…: its JSON goes to stdout; no plan that fits is an answer too
run() {
  local status=0
  "$nestplan" "$@" "${arguments[@]}" --model "$model" --json -q || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
}

header=(oversubscription dp_inner dp_outer pp tp iteration_s data_parallel_% pipeline_% first_plan_s)
format='%16s %8s %8s %4s %4s %11s %15s %10s %12s\n'
# shellcheck disable=SC2059  # the format is that of all rows
printf "$format" "${header[@]}"
[ -z "$csv" ] || (IFS=,; echo "${header[*]}") >"$csv"
first=''
for ratio in $ratios; do
  cluster=$scratch/cluster-$ratio.json plan=$scratch/plan-$ratio.json again=$scratch/again.json
  sed "/\"name\": \"spine\"/s/}/, \"oversubscription\": $ratio}/" \
    "$source_dir/inputs/clusters/dgx-h100-superpod.json" >"$cluster"
  run plan --cluster "$cluster" >"$plan"
  if [ "$(value "$plan" status)" = infeasible ]; then
    echo "nothing fits: $(value "$plan" reason)" >&2
    exit 3
  fi
  [ -n "$first" ] || first=$plan
  run evaluate "$first" --cluster "$cluster" >"$again"
  row=("$ratio" "$(value "$plan" dp_inner)" "$(value "$plan" dp_outer)" "$(value "$plan" pp)" "$(value "$plan" tp)"
       "$(printf %.4f "$(value "$plan" iteration_time_s)")" "$(share "$plan" data_parallel_s)"
       "$(share "$plan" pipeline_s)" "$(printf %.4f "$(value "$again" iteration_time_s)")")
  # shellcheck disable=SC2059
  printf "$format" "${row[@]}"
  [ -z "$csv" ] || (IFS=,; echo "${row[*]}") >>"$csv"
done
