#!/usr/bin/env bash
# Stands in for nestplan where a job script's reaction to it is tested. It does what the file
# $STAND_IN/script says, one line per start of the job (the last one again and again):
#   exit N      writes a plan for 0 and 3, and ends with N
#   nothing     ends with 0 and writes no plan
#   signal N    waits for SIGUSR1 or SIGTERM and ends with N
# Every start leaves a line in $STAND_IN/starts: RESTART TASK ARGUMENTS….
set -u
rank=${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}
restart=${SLURM_RESTART_COUNT:-0}
script=$STAND_IN/script
[ ! -f "$script.${SLURM_ARRAY_TASK_ID:-}" ] || script=$script.$SLURM_ARRAY_TASK_ID
read -r what code < <(sed -n "$((restart + 1))p;\$p" "$script")
output=''
for ((i = 1; i <= $#; ++i)); do
  case "${!i}" in -o|--output) j=$((i + 1)); output=${!j} ;; esac
done
stopped=0
trap 'stopped=1' USR1 TERM

[ "$rank" != 0 ] || echo "$restart ${SLURM_ARRAY_TASK_ID:--} $*" >>"$STAND_IN/starts"
echo "stand-in: start $restart, rank $rank"
if [ "$what" = signal ]; then
  while [ "$stopped" = 0 ]; do sleep 0.1; done
  echo "stand-in: rank $rank was told to stop"
fi
if [ "$what" != nothing ] && [ "$rank" = 0 ] && [ "$1" = plan ] && { [ "$code" = 0 ] || [ "$code" = 3 ]; }; then
  printf '{\n  "status": "%s",\n  "iteration_time_s": 2.5,\n  "strategy": {\n    "dp": 4,\n    "pp": 2\n  }\n}\n' \
    "$([ "$code" = 0 ] && echo optimal || echo infeasible)" >"$output"
fi
exit "${code:-0}"
