#!/usr/bin/env bash
# Runs one search at several rank counts and prints how it scales, as text or CSV; fails if the
# plans are not the same to the byte (their `search` aside).
#   scaling.sh [OPTION…] [-- PLAN ARGUMENTS…]     for example, inside of a Slurm job:
#   scaling.sh --ranks "1 16 32" --launcher "srun --mpi=pmix -n" -- --model … --cluster … --global-batch …
#     --ranks LIST      rank counts; the first is what the others are compared with (default "1 2 4 8")
#     --launcher WORDS  what a rank count is appended to (default "mpirun -n")
#     --repeat N        runs of each; the fastest counts (default 3)
#     --nestplan FILE   the binary (default: built from these sources)
#     --csv FILE        the table as CSV as well
#     --name NAME       one of the searches below instead of plan arguments (default llama-70b)
#       llama-70b       Llama 3.1 70B on 1,024 H100s, strategies per stage (many tables, a chain)
#       omni            Qwen2.5-Omni 7B in blocks on 1,024 H100s (towers side by side)
#       llama-405b      Llama 3.1 405B on 16,384 H100s (few tables)
#       omni-long       the same with long videos, its vision tower in operators: one table of
#                       21,699 downsets, 512 positions and 4 GB, minutes on one rank
#       omni-vision, omni-operator, llama-405b-sweep
#                       those whose scaling mpi_runs/README.md predicts: minutes to hours on one rank
#     --model FILE      `scaling_model` of tests/bench (-DNESTPLAN_BENCHMARKS=ON): a column with the
#                       efficiency it predicts, for the three last names
#     --machine FILE    constants of the machine for it, from "$launcher N scaling_model measure"
# Seconds are those of the search; "waiting" is the most that one rank waited for others, "sent" is
# of all ranks together, "peak" is the most memory of one process
# (needs GNU time).
set -euo pipefail
export LC_ALL=C

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ranks='1 2 4 8' launcher='mpirun -n' repeat=3 nestplan='' csv='' name=llama-70b model='' machine=''
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --ranks|--launcher|--repeat|--nestplan|--csv|--name|--model|--machine)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    --) shift; arguments=("$@"); break ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $ranks =~ ^\ *[1-9][0-9]*(\ +[1-9][0-9]*)*\ *$ && $repeat =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }

inputs=$source_dir/inputs
case "$name" in
  omni-vision|omni-operator) predicts=(--instance "$name" --walks 3000 --pushes 0.2) ;;
  llama-405b-sweep) predicts=(--instance llama-405b) ;;
  *) model='' ;;
esac
[ ${#arguments[@]} -eq 0 ] || model=''  # another search
if [ ${#arguments[@]} -eq 0 ]; then
  case "$name" in
    llama-70b) arguments=(--model "$inputs/models/llama-3.1-70b" --per-stage-strategies --global-batch 512
      --cluster "$inputs/clusters/h100-spine-leaf-1024.json") ;;
    omni) arguments=(--model "$inputs/models/qwen2.5-omni-7b" --granularity block --global-batch 512
      --cluster "$inputs/clusters/h100-spine-leaf-1024.json") ;;
    llama-405b) arguments=(--model "$inputs/models/llama-3.1-405b" --seq 8192 --global-batch 2048
      --cluster "$inputs/clusters/h100-16384.json") ;;
    omni-long) arguments=(--model "$inputs/models/qwen2.5-omni-7b" --granularity block,vision=operator
      --cluster "$inputs/clusters/h100-spine-leaf-1024.json" --per-stage-strategies --seq 32768
      --tokens vision=49152,audio=32768 --global-batch 512 --micro-batch 1 --dp 2 --dp-inner 1 --tp 1,4
      --pp 64 --objective paper) ;;
    omni-vision|omni-operator)
      granularity=operator
      [ "$name" = omni-operator ] || granularity=block,vision=operator
      arguments=(--model "$inputs/models/qwen2.5-omni-7b" --granularity "$granularity"
        --cluster "$inputs/clusters/h100-spine-leaf-1024.json" --per-stage-strategies --seq 4096
        --global-batch 512 --micro-batch 1 --dp 2 --dp-inner 1 --tp 2,4 --pp 48 --objective paper) ;;
    llama-405b-sweep) arguments=(--model "$inputs/models/llama-3.1-405b" --seq 8192 --global-batch 2048
      --cluster "$inputs/clusters/h100-16384.json" --per-stage-strategies --allow-uneven-batch) ;;
    *) echo "--name $name: not one of llama-70b, omni, llama-405b, omni-long, omni-vision," \
         "omni-operator, llama-405b-sweep" >&2; exit 2 ;;
  esac
fi
[ -n "$nestplan" ] || nestplan=$("$source_dir/mpi_runs/build.sh")
[ -x "$nestplan" ] || { echo "$nestplan: no such program" >&2; exit 2; }
[ -z "$model" ] || [ -x "$model" ] || { echo "$model: no such program" >&2; exit 2; }

# where every node can write
scratch=$(mktemp -d -p "$PWD" .scaling-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
case "$launcher" in
  mpirun*)
    export OMPI_MCA_rmaps_base_oversubscribe=1
    # containers have no user but root
    [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ;;
esac

# GNU time around every rank, one file each
as_rank=()
if /usr/bin/time -f %M true 2>/dev/null; then
  # shellcheck disable=SC2016  # for the shell of the rank
  as_rank=(bash -c 'exec /usr/bin/time -q -f %M -o "$0/peak.$(hostname).$$" "$@"' "$scratch")
fi

# run RANKS: leaves "SECONDS WAITING_S SENT_MB PEAK_MIB" in `line` and a plan in $scratch.
run() {
  local plan=$scratch/plan.json status=0 peak=-
  rm -f "$scratch"/peak.* "$plan"
  # shellcheck disable=SC2086  # a list of words
  $launcher "$1" "${as_rank[@]}" "$nestplan" plan "${arguments[@]}" -v -o "$plan" \
    >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
  if { [ "$status" != 0 ] && [ "$status" != 3 ]; } || [ ! -s "$plan" ]; then
    cat "$scratch/err" >&2
    echo "$1 ranks: exit code $status" >&2
    exit 1
  fi
  if ! grep -q "^    \"ranks\": $1,\$" "$plan"; then
    echo "--launcher: \"$launcher $1\" did not start $1 ranks" >&2
    exit 2
  fi
  if [ ${#as_rank[@]} -gt 0 ]; then
    peak=$(sort -n "$scratch"/peak.* | awk 'END {printf "%.1f", $1 / 1024}')
  fi
  line="$(sed -n 's/^    "seconds": \([^,]*\),$/\1/p' "$plan") $(awk -v ranks="$1" '
    $1 == "waiting," {waiting = $(NF - 1)}
    $1 == "sent," {sent = $(NF - 2) * ranks}
    END {printf "%.3f %.3f", waiting, sent}' "$scratch/out") $peak"
  sed '/^  "search": {$/,$d' "$plan" >"$scratch/without_search"
  [ -f "$scratch/expected" ] || cp "$scratch/without_search" "$scratch/expected"
  if ! cmp -s "$scratch/expected" "$scratch/without_search"; then
    diff "$scratch/expected" "$scratch/without_search" | head -20 >&2
    echo "$1 ranks: another plan" >&2
    exit 1
  fi
}

# What the model predicts: a line "RANKS EFFICIENCY" each.
if [ -n "$model" ]; then
  "$model" predict "${predicts[@]}" --ranks "${ranks// /,}" --brief 1 \
    ${machine:+--machine "$machine"} >"$scratch/predicted"
fi
predicted() {
  [ -s "$scratch/predicted" ] || { echo -; return; }
  # of the first rank count, as the measured one
  awk -v ranks="$1" 'NR == 1 {first = $2} $1 == ranks {printf "%.3f\n", $2 / first; exit}' "$scratch/predicted"
}

header=(ranks search_s speed_up efficiency predicted waiting_s sent_MB peak_MiB)
printf '%6s %10s %9s %11s %10s %10s %10s %9s\n' "${header[@]}"
[ -z "$csv" ] || (IFS=,; echo "${header[*]}") >"$csv"
for count in $ranks; do
  : >"$scratch/lines"
  for ((i = 0; i < repeat; ++i)); do
    run "$count"
    echo "$line" >>"$scratch/lines"
  done
  read -r seconds waiting sent peak < <(sort -g "$scratch/lines" | head -1)
  [ -n "${first_s:-}" ] || { first_s=$seconds first_ranks=$count; }
  read -r speed_up efficiency < <(awk -v a="$first_s" -v b="$seconds" -v m="$first_ranks" -v n="$count" '
    BEGIN {printf "%.2f %.3f\n", a / b, a * m / (b * n)}')
  row=("$count" "$(printf %.4f "$seconds")" "$speed_up" "$efficiency" "$(predicted "$count")" "$waiting" "$sent" "$peak")
  printf '%6s %10s %9s %11s %10s %10s %10s %9s\n' "${row[@]}"
  [ -z "$csv" ] || (IFS=,; echo "${row[*]}") >>"$csv"
done
echo "the same plan, to the byte, from all of them"
