# What the job scripts share; sourced by them, not submitted. They set `script`, their name in
# messages, and `job`, what Slurm calls this job or task.

refuse() { echo "$script: $*" >&2; exit 2; }

# need_program NAME WORDS: the first word of that setting is a program.
need_program() { command -v "${2%% *}" >/dev/null || refuse "$1: no program \"${2%% *}\""; }
# need_file NAME PATH
need_file() { [ -n "$2" ] || refuse "$1: not set"; [ -r "$2" ] || refuse "$1: $2 cannot be read"; }
# need_directory NAME PATH: it exists and can be written to.
need_directory() {
  if [ ! -d "$2" ] || [ ! -w "$2" ]; then refuse "$1: no directory $2 that can be written to"; fi
}
# need_count NAME VALUE
need_count() { [[ $2 =~ ^[0-9]+$ ]] || refuse "$1: \"$2\" is not a number"; }

# run COMMAND…: runs it and passes SIGUSR1 on, on which nestplan saves and stops. SIGTERM is passed
# on as SIGUSR1 too, for that is what launchers deliver without killing. The exit code is left in
# `status`.
status=1
run() {
  child='' signalled=0
  trap 'signalled=1; [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null || true' USR1 TERM
  "$@" &
  child=$!
  [ "$signalled" = 0 ] || kill -USR1 "$child"
  while :; do
    signalled=0
    status=0
    wait "$child" || status=$?
    # a signal ends the wait, not the child
    [ "$signalled" = 1 ] || break
  done
  trap : USR1
  trap - TERM
}

# again_or_stop: exit code 4 puts the job back into the queue, at most MAX_REQUEUES times; every
# other one ends it. A job that is being cancelled is no longer RUNNING and stays away.
again_or_stop() {
  local restarts=${SLURM_RESTART_COUNT:-0}
  [ "$status" = 4 ] || exit "$status"
  if [ "$restarts" -ge "$MAX_REQUEUES" ]; then
    echo "$script: stopped after $restarts requeues (MAX_REQUEUES)" >&2
    exit 4
  fi
  case $(scontrol -o show job "$job") in
    *" JobState=RUNNING "*) ;;
    *) echo "$script: cancelled, not requeued" >&2; exit 4 ;;
  esac
  echo "$script: not finished, requeued ($((restarts + 1)) of $MAX_REQUEUES)" >&2
  scontrol requeue "$job" || exit 5
  # Slurm ends this script
  sleep 60
  exit 4
}
