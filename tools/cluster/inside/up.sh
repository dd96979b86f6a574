#!/bin/bash
# up.sh LAB MACHINE: start one machine in namespaces and cgroups of its own; its first process's id goes to LAB/MACHINE.pid.
LAB=$1 M=$2 CG=/sys/fs/cgroup
for c in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
  [ -d $CG/$c ] || continue
  mkdir -p "$CG/$c/lab-$M"
  if [ $c = cpuset ]; then
    cat $CG/cpuset/cpuset.cpus > "$CG/cpuset/lab-$M/cpuset.cpus"; cat $CG/cpuset/cpuset.mems > "$CG/cpuset/lab-$M/cpuset.mems"
  fi
  [ $c = memory ] && echo 1 > "$CG/memory/lab-$M/memory.use_hierarchy" 2>/dev/null
  echo $$ > "$CG/$c/lab-$M/cgroup.procs"
done
exec unshare -C -m -n -p -f -u -i --kill-child=KILL --propagation private "$LAB/inside/init.sh" "$LAB" "$M"
