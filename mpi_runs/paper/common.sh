# Sourced by the scripts beside it: their options, runs of `nestplan compare`, and reports.

export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_dir=$(cd "$here/../.." && pwd)
inputs=$source_dir/inputs
full='' nest='' output=. nestplan=''

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; }

# options ARGUMENT…: reads those of every script.
options() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --help) usage; exit 0 ;;
      --full) full=1; shift ;;
      --nest|--output|--nestplan)
        [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
        declare -g "${1#--}=$2"; shift 2 ;;
      *) usage >&2; exit 2 ;;
    esac
  done
  [ -n "$nestplan" ] || nestplan=$("$source_dir/mpi_runs/build.sh")
  [ -x "$nestplan" ] || { echo "$nestplan: no such program" >&2; exit 2; }
  [ -z "$nest" ] || [ -d "$nest" ] || { echo "$nest: no such directory" >&2; exit 2; }
  mkdir -p "$output"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
}

# compare MODEL DEVICES MICRO_BATCH ARGUMENT…: adds a line for every method to $results: model,
# devices, micro-batch, method, samples per second or nothing, seconds of search, plan. No plan that
# fits is an answer too.
results=''
compare() {
  local model=$1 devices=$2 micro_batch=$3 status=0
  shift 3
  results=$scratch/results.tsv
  "$nestplan" compare "$@" --micro-batch "$micro_batch" --csv - -q >"$scratch/rows.csv" || status=$?
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
  # Only recomputation and ZeRO (16, 17) and reasons may hold commas; what is read is before or last.
  awk -F, -v OFS='\t' -v model="$model" -v devices="$devices" -v mbs="$micro_batch" '
    NR > 1 {
      sub(/\r$/, "")
      plan = $4 == "" ? "X" : "dp " $8 " pp " $10 " tp " $12 ($14 > 1 ? " ep " $14 : "")
      print model, devices, mbs, $1, $4, $NF, plan
    }' "$scratch/rows.csv" >>"$results"
  echo "  $model on $devices devices, micro-batch $micro_batch" >&2
}

# report FIGURE TITLE BASE: throughputs of $results beside those that the paper reports, both over
# the recipe by hand at one BASE (devices or micro_batch): a table, and FIGURE.svg in the output
# directory.
report() {
  awk -v figure="$1" -v title="$2" -v base="$3" -v svg="$output/$1.svg" -f "$here/report.awk" \
    "$here/reported.csv" "$results"
  echo "chart: $output/$1.svg"
}
