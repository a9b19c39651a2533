#!/usr/bin/env bash
# A Slurm of our own: one machine, two emulated nodes n1 and n2, on loopback, without systemd, with
# everything in one directory. It touches no other Slurm and needs no configuration of one.
#   cluster.sh start DIR OWNER   returns when both nodes are idle; ends by itself with process OWNER
#   cluster.sh stop DIR          ends the jobs and the daemons, those of DIR's pid files alone
# Clients find it by SLURM_CONF=DIR/slurm.conf. Exit code 77: Slurm is not installed.
set -uo pipefail

nodes=2 cpus=4
dir=${2:?usage: cluster.sh start DIR OWNER | stop DIR}
user=$(id -un)
host=$(hostname -s)
PATH=$PATH:/usr/sbin:/sbin
# inside of a job of another Slurm its variables would steer our clients
for variable in $(compgen -e | grep -E '^(SLURM|SLURMD|SBATCH|SALLOC|SQUEUE|SINFO|SCANCEL|SCONTROL)_'); do
  unset "$variable"
done
export SLURM_CONF=$dir/slurm.conf

die() { echo "cluster.sh: $*" >&2; exit 1; }
# A zombie has no exe: it has ended, though nobody has asked.
alive() { [ -n "${1:-}" ] && [ -e "/proc/$1/exe" ]; }
# daemon PIDFILE NAME: its process id, if it runs and is what it should be.
daemon() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && alive "$pid" && [ "$(cat "/proc/$pid/comm")" = "$2" ] && echo "$pid"
}

# A port such that it and one more per node are free.
free_ports() {
  local base used=' ' hex i
  while read -r hex; do used+="$((16#$hex)) "; done < <(
    sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' /proc/net/tcp /proc/net/tcp6)
  while :; do
    base=$((20000 + RANDOM % 12000))
    for ((i = 0; i <= nodes; ++i)); do [[ $used != *" $((base + i)) "* ]] || continue 2; done
    echo "$base"
    return
  done
}

configure() {
  local port=$1 i
  {
    cat <<C
ClusterName=nestplan
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
# a requeued job waits as long as a credential lasts; less than 5 s count as the default of 120
AuthInfo=socket=$dir/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdPidFile=$dir/%n.pid
SlurmdLogFile=$dir/%n.log
SlurmdSpoolDir=$dir/spool-%n
# daemons of one machine must not share it: PMIx keeps a directory per job step there
TmpFS=$dir/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# nodes may have more CPUs than the machine
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
# a node that is set DOWN stays so
ReturnToService=1
JobRequeue=1
KillWait=5
MinJobAge=3600
SlurmctldTimeout=60
SlurmdTimeout=120
MessageTimeout=30
C
    for ((i = 1; i <= nodes; ++i)); do
      echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP"
  } >"$SLURM_CONF"
  echo CgroupAutomount=no >"$dir/cgroup.conf"
  : >"$dir/plugstack.conf"
}

launch() {
  local i
  slurmctld -f "$SLURM_CONF" || return 1
  for ((i = 1; i <= nodes; ++i)); do slurmd -N "n$i" -f "$SLURM_CONF" || return 1; done
}

wait_until_idle() {
  local end=$((SECONDS + 30))
  while [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" != "$nodes" ]; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

start() {
  local owner=${1:?start DIR OWNER} program i try
  for program in munged slurmctld slurmd sbatch srun scontrol; do
    command -v "$program" >/dev/null ||
      { echo "SKIP: $program is not installed (packages slurm-wlm and munge)"; exit 77; }
  done
  getent hosts "$host" >/dev/null || die "the host name $host does not resolve; add it to /etc/hosts"
  mkdir -p "$dir/munge" "$dir/state" || die "$dir cannot be made"
  dir=$(cd "$dir" && pwd) SLURM_CONF=$dir/slurm.conf
  chmod 755 "$dir"
  chmod 700 "$dir/munge"
  for ((i = 1; i <= nodes; ++i)); do mkdir -p "$dir/tmp-n$i" "$dir/spool-n$i"; done
  (umask 077; head -c 128 /dev/urandom >"$dir/munge/key")
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" ||
    die "munged does not start; see $dir/munge/log"
  # started before the rest, so that nothing outlives an owner that is killed
  (
    while alive "$owner" && [ -d "$dir" ]; do sleep 1; done
    [ ! -d "$dir" ] || "$0" stop "$dir"
  ) </dev/null >/dev/null 2>&1 &
  # another process may take a port in between
  for try in 1 2 3; do
    configure "$(free_ports)"
    if launch && wait_until_idle; then return; fi
    end_daemons
  done
  tail -n 20 "$dir"/*.log >&2
  die "the nodes are not idle after $try attempts"
}

end_process() {
  local i
  kill "$1" 2>/dev/null
  for ((i = 0; i < 200; ++i)); do
    alive "$1" || return 0
    sleep 0.05
  done
  kill -KILL "$1"
}

end_daemons() {
  local pid i
  for ((i = 1; i <= nodes; ++i)); do if pid=$(daemon "$dir/n$i.pid" slurmd); then end_process "$pid"; fi; done
  if pid=$(daemon "$dir/slurmctld.pid" slurmctld); then end_process "$pid"; fi
}

stop() {
  local pid end=$((SECONDS + 15))
  if daemon "$dir/slurmctld.pid" slurmctld >/dev/null; then
    timeout 10 scancel --quiet --user="$user"
    while [ -n "$(timeout 5 squeue -h -t R,CG,S -o %i 2>/dev/null)" ] && [ "$SECONDS" -lt "$end" ]; do
      sleep 0.1
    done
  fi
  end_daemons
  if pid=$(daemon "$dir/munged.pid" munged); then end_process "$pid"; fi
}

case "$1" in
  start) start "${3:-}" ;;
  stop) [ ! -d "$dir" ] || stop ;;
  *) die "usage: cluster.sh start DIR OWNER | stop DIR" ;;
esac
