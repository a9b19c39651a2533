#!/usr/bin/env bash
# The job scripts through a real scheduler. Each case has a Slurm of its own.
#   slurm_test.sh CASE SOURCE_DIR NESTPLAN      exit code 77: skipped
set -uo pipefail
export LC_ALL=C

case_name=$1 source_dir=$2 nestplan=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nestplan-slurm-XXXXXX")
for variable in $(compgen -e | grep -E '^(SLURM|SLURMD|SBATCH|SALLOC|SQUEUE|SINFO|SCANCEL|SCONTROL)_'); do
  unset "$variable"
done
export SLURM_CONF=$work/slurm/slurm.conf

clean_up() {
  "$here/cluster.sh" stop "$work/slurm"
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
  exec >&2
  echo "FAILED: $*"
  tail -n +1 "$work"/*.log 2>/dev/null
  [ ! -f "$work/starts" ] || { echo "starts:"; cat "$work/starts"; }
  timeout 10 scontrol -o show job
  exit 1
}

# What a machine with fewer cores than ranks, perhaps with no user but root, and with two nodes on
# loopback needs.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
export OMPI_MCA_mpi_yield_when_idle=1

"$here/cluster.sh" start "$work/slurm" $$
status=$?
[ "$status" = 0 ] || exit "$status"

# job_field JOB FIELD
job_field() { scontrol -o show job "$1" | head -1 | sed -n "s/.*\\b$2=\\([^ ]*\\).*/\\1/p"; }

# until_true SECONDS COMMAND…
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || fail "in vain: $*"
    sleep 0.1
  done
}
is_in_state() { [[ " $2 " == *" $(job_field "$1" JobState) "* ]]; }
has_ended() { is_in_state "$1" "COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL"; }
has_line() { grep -qE "$2" "$1" 2>/dev/null; }

# expect_end JOB STATE EXIT_CODE RESTARTS
expect_end() {
  until_true 90 has_ended "$1"
  local found
  found="$(job_field "$1" JobState) $(job_field "$1" ExitCode) $(job_field "$1" Restarts)"
  [ "$found" = "$2 $3 $4" ] || fail "job $1 ended as $found, not $2 $3 $4"
}
starts_are() { [ -f "$work/starts" ] && [ "$(wc -l <"$work/starts")" = "$1" ]; }
expect_starts() { starts_are "$1" || fail "not $1 starts"; }

# stand_in LINE…: the next job runs the stand-in, which does that.
stand_in() {
  export NESTPLAN=$here/stand_in.sh STAND_IN=$work
  export PLAN_ARGUMENTS="--graph g --cluster c --global-batch 8" PLAN_FILE=$work/plan.json
  printf '%s\n' "$@" >"$work/script"
  rm -f "$work/starts" "$work/plan.json"
}
# submit OPTION… SCRIPT: prints the job's id; two ranks, one CPU each, and an appended log.
submit() {
  local id
  id=$(sbatch --parsable --chdir="$work" --ntasks-per-node=2 --output="$work/%x-%j.log" "${@:1:$#-1}" \
    "$source_dir/slurm/${!#}") || fail "not submitted: $*"
  echo "${id%%;*}"
}

# Exit code 4 brings the job back under its own id, and the log goes on.
case_requeue() {
  stand_in 'exit 4' 'exit 0'
  local job
  job=$(submit plan.sbatch)
  expect_end "$job" COMPLETED 0:0 1
  expect_starts 2
  has_line "$work/plan.json" optimal || fail "no plan"
  [ ! -e "$work/plan.json.part" ] || fail "a part is left"
  has_line "$work/starts" '^0 - plan --graph g .*--checkpoint .*/plan.json.checkpoint --checkpoint-every 600 ' ||
    fail "other arguments"
  [ "$(cut -d' ' -f2- "$work/starts" | sort -u | wc -l)" = 1 ] || fail "the second start differs"
  cat "$work"/nestplan-*.log >"$work/all"
  has_line "$work/all" 'start 0, rank 1' || fail "the log of the first start is gone"
  has_line "$work/all" 'start 1, rank 0' || fail "no log of the second start"
}

# The signal reaches every rank through the launcher.
signalled() {
  stand_in 'signal 4' 'exit 0'
  local job
  job=$(LAUNCHER=$1 submit plan.sbatch)
  until_true 60 has_line "$work/starts" '^0 '
  # the other rank needs a moment to set its traps
  until_true 60 has_line "$work/nestplan-$job.log" 'rank 1'
  scancel --batch --signal=USR1 "$job"
  expect_end "$job" COMPLETED 0:0 1
  [ "$(grep -c 'was told to stop' "$work"/nestplan-*.log)" = 2 ] || fail "not every rank was told"
  expect_starts 2
}
case_signal_srun() { signalled "srun --mpi=pmix"; }
case_signal_mpirun() { signalled mpirun; }

# Slurm itself signals ahead of the time limit.
case_time_limit() {
  stand_in 'signal 4' 'exit 0'
  local job
  job=$(submit --time=1 --signal=B:USR1@60 plan.sbatch)
  expect_end "$job" COMPLETED 0:0 1
}

# Other exit codes are final, and are the job's own.
case_final_codes() {
  local job code
  for code in 1 2 3 5 6; do
    stand_in "exit $code"
    job=$(submit plan.sbatch)
    expect_end "$job" FAILED "$code:0" 0
    expect_starts 1
    if [ "$code" = 3 ]; then has_line "$work/plan.json" infeasible || fail "no plan of $code"
    else [ ! -e "$work/plan.json" ] || fail "a plan of $code"; fi
  done
  stand_in nothing
  expect_end "$(submit plan.sbatch)" FAILED 1:0 0
}

case_requeue_limit() {
  stand_in 'exit 4'
  local job
  job=$(MAX_REQUEUES=1 submit plan.sbatch)
  expect_end "$job" FAILED 4:0 1
  expect_starts 2
}

# refused WHAT SCRIPT SETTING=VALUE…: submits a job that must end with 2 and name the setting.
refused() {
  local what=$1 script=$2 job
  shift 2
  job=$(env BATCH_FILE="$work/batch.json" OUTPUT_DIR="$work" "$@" sbatch --parsable \
    --chdir="$work" --output="$work/refused-%A.log" --ntasks-per-node=1 --array=1 \
    "$source_dir/slurm/$script") || fail "not submitted"
  refused+=("$job $script: $what")
}
case_half_configured() {
  local refused=() job message
  stand_in 'exit 0'
  touch "$work/batch.json"
  refused NESTPLAN plan.sbatch NESTPLAN=no-such-program
  refused LAUNCHER plan.sbatch "LAUNCHER=no-such-launcher -n"
  refused PLAN_ARGUMENTS plan.sbatch PLAN_ARGUMENTS=
  refused PLAN_ARGUMENTS plan.sbatch "PLAN_ARGUMENTS=--graph g --output p"
  refused PLAN_FILE plan.sbatch PLAN_FILE=
  refused PLAN_FILE plan.sbatch PLAN_FILE=/no/such/directory/plan.json
  refused CHECKPOINT plan.sbatch CHECKPOINT=/no/such/directory/c
  refused CHECKPOINT_EVERY plan.sbatch CHECKPOINT_EVERY=often
  refused POINTS plan.sbatch POINTS=/no/such/file
  refused BATCH_FILE batch.sbatch BATCH_FILE=
  refused BATCH_FILE batch.sbatch BATCH_FILE=/no/such/file
  refused OUTPUT_DIR batch.sbatch OUTPUT_DIR=
  refused MAX_REQUEUES batch.sbatch MAX_REQUEUES=many
  while read -r job message; do
    expect_end "$job" FAILED 2:0 0
    has_line "$work/refused-$job.log" "^$message" || fail "job $job does not say $message"
  done < <(printf '%s\n' "${refused[@]}")
  [ ! -e "$work/starts" ] || fail "something was started"
}

# Every task has its share; the one that is stopped comes back alone.
case_array() {
  stand_in 'exit 0'
  # the number of the last task is also the one of the whole array
  printf 'exit 4\nexit 0\n' >"$work/script.3"
  touch "$work/batch.json"
  local job
  job=$(BATCH_FILE=$work/batch.json OUTPUT_DIR=$work submit --array=1-3 batch.sbatch)
  expect_end "${job}_1" COMPLETED 0:0 0
  expect_end "${job}_2" COMPLETED 0:0 0
  expect_end "${job}_3" COMPLETED 0:0 1
  [ "$(cut -d' ' -f1-3,7-8 "$work/starts" | sort)" = "0 1 batch --task 1/3
0 2 batch --task 2/3
0 3 batch --task 3/3
1 3 batch --task 3/3" ] || fail "other starts"
  job=$(BATCH_FILE=$work/batch.json OUTPUT_DIR=$work submit --array=2-3 batch.sbatch)
  expect_end "${job}_2" FAILED 2:0 0
}

# The table waits for all searches, the requeued one included, and has all of them.
case_sweep() {
  stand_in 'exit 0'
  printf 'exit 4\nexit 0\n' >"$work/script.2"
  echo 'exit 3' >"$work/script.3"
  echo 'exit 1' >"$work/script.4"
  unset PLAN_FILE
  touch "$work/g.json" "$work/small.json" "$work/large.json"
  local said job
  said=$(PLAN_ARGUMENTS="--zero 0" GRAPH=$work/g.json CLUSTERS="$work/small.json $work/large.json" GLOBAL_BATCHES="8 16" \
    SWEEP_DIR=$work/sweep "$source_dir/slurm/sweep.sh" --ntasks-per-node=2) || fail "not submitted: $said"
  job=$(sed -n 's/.*table: job \([0-9]*\),.*/\1/p' <<<"$said")
  expect_end "$job" COMPLETED 0:0 0
  [ "$(cut -d, -f1-3,7,9 "$work/sweep/summary.csv")" = "name,status,iteration_time_s,dp,pp
small-8,optimal,2.5,4,2
small-16,optimal,2.5,4,2
large-8,infeasible,2.5,4,2
large-16,missing,,," ] || { cat "$work/sweep/summary.csv"; fail "another table"; }
  [ "$(wc -l <"$work/sweep/summary.txt")" = 5 ] || fail "another text table"
  has_line "$work/starts" "^1 2 plan --graph .*/g.json --zero 0 --cluster .*/small.json --global-batch 16 " ||
    fail "other arguments"
  expect_starts 5
  GRAPH='' CLUSTERS="$work/small.json" GLOBAL_BATCHES=8 SWEEP_DIR=$work/sweep \
    "$source_dir/slurm/sweep.sh" 2>"$work/said" && fail "submitted without a model"
  has_line "$work/said" '^sweep.sh: MODEL' || fail "does not name MODEL"
}

# Slurm requeues a job whose node is lost; the other node takes it.
case_node_failure() {
  stand_in 'signal 4' 'exit 0'
  local job
  job=$(submit --nodelist=n1 plan.sbatch)
  until_true 60 has_line "$work/starts" '^0 '
  scontrol update JobId="$job" ReqNodeList= 2>/dev/null
  scontrol update NodeName=n1 State=DOWN Reason=test
  until_true 30 is_in_state "$job" PENDING
  scontrol update JobId="$job" ReqNodeList=
  expect_end "$job" COMPLETED 0:0 1
  [ "$(job_field "$job" NodeList)" = n2 ] || fail "not on the other node"
  has_line "$work/plan.json" optimal || fail "no plan"
}

# A cancelled job stays away although its ranks say that they could go on.
case_cancel() {
  stand_in 'signal 4' 'exit 0'
  local jobs job
  jobs=("$(LAUNCHER="srun --mpi=pmix" submit plan.sbatch)"
        "$(LAUNCHER=mpirun PLAN_FILE=$work/other.json submit plan.sbatch)")
  until_true 60 starts_are 2
  scancel "${jobs[@]}"
  for job in "${jobs[@]}"; do until_true 30 has_ended "$job"; done
  # longer than a requeued job would wait
  sleep 7
  for job in "${jobs[@]}"; do
    [ "$(job_field "$job" JobState) $(job_field "$job" Restarts)" = "CANCELLED 0" ] || fail "$job came back"
  done
  expect_starts 2
}

# The exported script brings every rank to the node and the device that the plan has for it.
case_placement() {
  local job names ranks
  cat >"$work/cluster.json" <<'J'
{"format": "nestplan.cluster/1", "name": "two", "device": {"name": "d", "memory": "1 GB", "peak": {"bf16": "1 TFLOP/s"}},
 "network": {"kind": "hierarchy", "levels": [
   {"name": "node", "fanout": 4, "bandwidth": "100 GB/s", "latency": "1 us"},
   {"name": "rack", "fanout": 2, "bandwidth": "10 GB/s", "latency": "5 us"}]}}
J
  cat >"$work/plan.json" <<'J'
{"format": "nestplan.plan/1", "status": "optimal", "strategy": {"dp": 4, "dp_inner": 1, "dp_outer": 4},
 "stages": [{"layers": ["a"], "strategy": "tp1", "tp": 1, "cp": 1, "ep": 1, "position": 0, "devices": 1},
            {"layers": ["b"], "strategy": "tp1", "tp": 1, "cp": 1, "ep": 1, "position": 1, "devices": 1}]}
J
  "$nestplan" export "$work/plan.json" --cluster "$work/cluster.json" --hosts 'n[1-2]' --to csv |
    sed 1d | cut -d, -f1,4,5 | tr , ' ' >"$work/expected"
  for names in '' 'n[1-2]'; do
    "$nestplan" export "$work/plan.json" --cluster "$work/cluster.json" ${names:+--hosts "$names"} \
      --to slurm -o "$work/run.sbatch" || fail "no script"
    bash -n "$work/run.sbatch" || fail "no bash"
    sbatch --test-only "$work/run.sbatch" true 2>"$work/said" || fail "$(cat "$work/said")"
    # shellcheck disable=SC2016  # the tasks expand it
    job=$(sbatch --parsable --output="$work/ranks-%j.log" "$work/run.sbatch" bash -c '
      IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
      echo "$RANK $SLURMD_NODENAME ${devices[$LOCAL_RANK]}"') || fail "not submitted"
    expect_end "$job" COMPLETED 0:0 0
    ranks=$(sort -n "$work/ranks-$job.log")
    [ "$ranks" = "$(cat "$work/expected")" ] || fail "other places"
  done
}

# From here on with nestplan itself.
real() {
  inputs=$source_dir/inputs
  export NESTPLAN=$nestplan PLAN_FILE=$work/plan.json CHECKPOINT_EVERY=1
  export PLAN_ARGUMENTS="--model $inputs/models/gpt-3-175b --per-stage-strategies --global-batch 512 \
    --cluster $inputs/clusters/tpuv4-fat-tree-512.json"
}
# same_plan EXPECTED PLAN: but for `search`, their last member.
same_plan() {
  cmp <(sed '/^  "search": {$/,$d' "$1") <(sed '/^  "search": {$/,$d' "$2") || fail "another plan"
}
expected_plan() {
  # shellcheck disable=SC2086  # a list of words
  "$nestplan" plan $PLAN_ARGUMENTS --single-process -q -o "$work/expected.json" >/dev/null ||
    fail "no plan without Slurm"
}

# real_stop OPTION…: submits, signals as soon as there is something to go on from, waits for the end.
real_stop() {
  job=$(submit "$@" plan.sbatch)
  until_true 60 test -s "$CHECKPOINT"
  scancel --batch --signal=USR1 "$job"
}

# A stopped search goes on by itself, on two nodes, and ends with the same plan.
case_real_requeue() {
  real
  export CHECKPOINT=$work/c.h5
  expected_plan
  real_stop --nodes=2 --ntasks-per-node=1
  expect_end "$job" COMPLETED 0:0 1
  same_plan "$work/expected.json" "$PLAN_FILE"
}

# A job of another size takes over, under another launcher.
case_real_other_ranks() {
  real
  export CHECKPOINT=$work/c.h5
  expected_plan
  MAX_REQUEUES=0 real_stop --ntasks-per-node=2
  expect_end "$job" FAILED 4:0 0
  [ ! -e "$PLAN_FILE" ] || fail "a plan that is not final"
  job=$(LAUNCHER=mpirun submit --ntasks-per-node=3 plan.sbatch)
  expect_end "$job" COMPLETED 0:0 0
  same_plan "$work/expected.json" "$PLAN_FILE"
}

# The node is lost without warning: the job goes on from what was saved last.
case_real_node_failure() {
  real
  export CHECKPOINT=$work/c.h5
  expected_plan
  job=$(submit --ntasks-per-node=2 plan.sbatch)
  until_true 60 test -s "$CHECKPOINT"
  scontrol update NodeName="$(job_field "$job" NodeList)" State=DOWN Reason=test
  expect_end "$job" COMPLETED 0:0 1
  same_plan "$work/expected.json" "$PLAN_FILE"
}

# A batch as an array has the plans of its jobs run one by one.
case_real_array() {
  real
  local cluster=$inputs/clusters/single-node-8xh100.json name
  cat >"$work/batch.json" <<J
{"format": "nestplan.batch/1", "options": {"global-batch": 64},
 "jobs": [{"name": "llama", "model": "$inputs/models/llama-3.1-8b", "cluster": "$cluster"},
          {"name": "mistral", "model": "$inputs/models/mistral-7b", "cluster": "$cluster"},
          {"name": "qwen", "model": "$inputs/models/qwen2.5-7b", "cluster": "$cluster"}]}
J
  mkdir "$work/plans"
  job=$(BATCH_FILE=$work/batch.json OUTPUT_DIR=$work/plans submit --array=1-2 batch.sbatch)
  expect_end "${job}_1" COMPLETED 0:0 0
  expect_end "${job}_2" COMPLETED 0:0 0
  for name in llama:llama-3.1-8b mistral:mistral-7b qwen:qwen2.5-7b; do
    PLAN_ARGUMENTS="--model $inputs/models/${name#*:} --cluster $cluster --global-batch 64"
    expected_plan
    same_plan "$work/expected.json" "$work/plans/${name%:*}.plan.json"
  done
}

# A sweep of nestplan itself: a point that fits and one that does not.
case_real_sweep() {
  real
  unset PLAN_FILE
  local said
  said=$(PLAN_ARGUMENTS="" MODEL=$inputs/models/llama-3.1-70b GLOBAL_BATCHES=64 SWEEP_DIR=$work/sweep \
    CLUSTERS="$inputs/clusters/dgx-h100-superpod.json $inputs/clusters/single-node-8xh100.json" \
    "$source_dir/slurm/sweep.sh" --ntasks-per-node=2) || fail "not submitted"
  expect_end "$(sed -n 's/.*table: job \([0-9]*\),.*/\1/p' <<<"$said")" COMPLETED 0:0 0
  has_line "$work/sweep/summary.csv" '^dgx-h100-superpod-64,optimal,[0-9.]+,' || fail "no first row"
  has_line "$work/sweep/summary.csv" '^single-node-8xh100-64,infeasible,,' || fail "no second row"
}

"case_$case_name"
