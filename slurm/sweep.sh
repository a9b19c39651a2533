#!/usr/bin/env bash
# Plans one model on several clusters and batch sizes: an array of searches and, after the last of
# them, a job that tabulates the results.
#   MODEL=… CLUSTERS="a.json b.json" GLOBAL_BATCHES="512 1024" SWEEP_DIR=… slurm/sweep.sh [SBATCH OPTION…]
# The options (--ntasks-per-node=64 …) are those of the searches. Other settings of a search
# (NESTPLAN, LAUNCHER, …) are those of plan.sbatch.
set -euo pipefail

# A Hugging Face config.json or its directory, or instead a nestplan.graph/1 file; cluster files
# (one per device count, say); sequences per iteration; a directory for plans, logs and the table;
# more words for every `nestplan plan`.
MODEL=${MODEL:-}
GRAPH=${GRAPH:-}
CLUSTERS=${CLUSTERS:-}
GLOBAL_BATCHES=${GLOBAL_BATCHES:-}
SWEEP_DIR=${SWEEP_DIR:-}
PLAN_ARGUMENTS=${PLAN_ARGUMENTS:-}

refuse() { echo "sweep.sh: $*" >&2; exit 2; }
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v sbatch >/dev/null || refuse "no program sbatch"
if { [ -n "$MODEL" ] && [ -n "$GRAPH" ]; } || [ -z "$MODEL$GRAPH" ]; then
  refuse "MODEL, GRAPH: set one of them"
fi
[ -r "$MODEL$GRAPH" ] || refuse "${MODEL:+MODEL}${GRAPH:+GRAPH}: $MODEL$GRAPH cannot be read"
[ -n "$CLUSTERS" ] || refuse "CLUSTERS: not set"
[ -n "$GLOBAL_BATCHES" ] || refuse "GLOBAL_BATCHES: not set"
[ -n "$SWEEP_DIR" ] || refuse "SWEEP_DIR: not set"
mkdir -p "$SWEEP_DIR" || refuse "SWEEP_DIR: $SWEEP_DIR cannot be made"
SWEEP_DIR=$(cd "$SWEEP_DIR" && pwd)

points=$SWEEP_DIR/points
: >"$points"
declare -A named
for cluster in $CLUSTERS; do
  [ -r "$cluster" ] || refuse "CLUSTERS: $cluster cannot be read"
  for batch in $GLOBAL_BATCHES; do
    [[ $batch =~ ^[1-9][0-9]*$ ]] || refuse "GLOBAL_BATCHES: \"$batch\" is not a number"
    name=$(basename "$cluster" .json)-$batch
    [ -z "${named[$name]:-}" ] || refuse "two searches would be called $name"
    named[$name]=1
    echo "$name --cluster $(realpath "$cluster") --global-batch $batch" >>"$points"
  done
done
subject="${MODEL:+--model $(realpath "$MODEL$GRAPH")}${GRAPH:+--graph $(realpath "$MODEL$GRAPH")}"

searches=$(PLAN_ARGUMENTS="$subject $PLAN_ARGUMENTS" POINTS=$points PLAN_DIR=$SWEEP_DIR \
  sbatch --parsable --array="1-$(wc -l <"$points")" --output="$SWEEP_DIR/%A_%a.log" "$@" \
  "$scripts/plan.sbatch")
searches=${searches%%;*}
# afterany: a search that fails or does not fit has its line in the table as well
export SWEEP_DIR
summary=$(sbatch --parsable --dependency="afterany:$searches" \
  --output="$SWEEP_DIR/summary-%j.log" "$scripts/summary.sbatch")
echo "searches: job $searches; table: job ${summary%%;*}, $SWEEP_DIR/summary.txt and summary.csv"
