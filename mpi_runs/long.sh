#!/usr/bin/env bash
# Runs one search that takes half a minute to a minute on two ranks: made for trying checkpoints,
# signals and job scripts.
#   long.sh [OPTION…] [-- PLAN ARGUMENTS…]     for example:
#   long.sh -- --checkpoint c.h5 --checkpoint-every 5 -o plan.json
#     --ranks N         how many ranks (default 2; 0: no launcher)
#     --launcher WORDS  what the number of ranks is appended to (default "mpirun -n")
#     --nestplan FILE   the binary (default: built from these sources)
#     --print           print the arguments of `nestplan plan` instead: nestplan plan $(long.sh --print)
# Qwen2.5-Omni 7B in blocks on 1,024 H100s, strategies per stage: 45 configurations with some 2,000
# tables over a lattice that branches. What follows -- is added to the arguments.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ranks=2 launcher='mpirun -n' nestplan='' print=''
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
more=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --print) print=yes; shift ;;
    --ranks|--launcher|--nestplan)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    --) shift; more=("$@"); break ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $ranks =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }

inputs=$source_dir/inputs
# shellcheck disable=SC2054  # commas of values
arguments=(--model "$inputs/models/qwen2.5-omni-7b" --granularity block --per-stage-strategies
           --cluster "$inputs/clusters/h100-spine-leaf-1024.json" --global-batch 512 --seq 4096
           --tp 2,4 --dp 64,128 "${more[@]}")
if [ -n "$print" ]; then
  echo "${arguments[*]}"
  exit 0
fi

[ -n "$nestplan" ] || nestplan=$("$source_dir/mpi_runs/build.sh")
[ -x "$nestplan" ] || { echo "$nestplan: no such program" >&2; exit 2; }
if [ "$ranks" = 0 ]; then
  exec "$nestplan" plan "${arguments[@]}" --single-process
fi
# ranks on a machine with fewer cores, and containers that have no user but root
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# shellcheck disable=SC2086  # words
exec $launcher "$ranks" "$nestplan" plan "${arguments[@]}"
