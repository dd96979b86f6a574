#!/bin/bash
# init.sh LAB MACHINE: the first process of a machine. A root of its own, cgroups that look like a machine's, disks on ext4.
LAB=$1 M=$2; hostname "$M"; read -r p _ < /proc/self/stat; echo "$p" > "$LAB/$M.pid"
N=$LAB/m/$M; mkdir -p "$N" "$LAB/m/$M.up" "$LAB/m/$M.work"
mount -t overlay overlay -o "lowerdir=$LAB/root,upperdir=$LAB/m/$M.up,workdir=$LAB/m/$M.work" "$N"
mount -t proc proc "$N/proc"; mount -t sysfs sysfs "$N/sys"
mount -t tmpfs tmpfs "$N/sys/fs/cgroup"
for c in cpu cpuacct cpuset memory devices freezer blkio pids; do
  mkdir "$N/sys/fs/cgroup/$c"; mount -t cgroup -o $c cgroup "$N/sys/fs/cgroup/$c" || rmdir "$N/sys/fs/cgroup/$c"
done
mkdir "$N/sys/fs/cgroup/systemd"; mount -t cgroup -o none,name=systemd cgroup "$N/sys/fs/cgroup/systemd"
mount --rbind /dev "$N/dev"; mount -t tmpfs tmpfs "$N/run"
mkdir -p "$N/lab" "$LAB/m/$M.var"; mount --bind "$LAB" "$N/lab"
for d in var/lib/containerd var/lib/kubelet var/lib/etcd var/lib/hotdesk var/log; do
  mkdir -p "$LAB/m/$M.var/$d" "$N/$d"; mount --bind "$LAB/m/$M.var/$d" "$N/$d"
done
mount --make-rshared "$N/var/lib/kubelet"
# The images of this machine are shown to nodes, read-only: lines of SOURCE and a place below /var/lib/hotdesk/images.
[ "$M" = cp ] || while read -r source place; do
  T=$N/var/lib/hotdesk/images/$place; mkdir -p "$(dirname "$T")"; if [ -d "$source" ]; then mkdir -p "$T"; else touch "$T"; fi
  mount --bind "$source" "$T"; mount -o remount,bind,ro,nosuid "$T"
done < "$LAB/images"
# A pod requests all processors that it may use. Where $LAB/cpus says so, a node reports more than this machine has.
[ "$M" = cp ] || [ ! -f "$LAB/cpus" ] || {
  T=$N/sys/devices/system/node MEMORY=$(cat /sys/devices/system/node/node0/meminfo); mount -t tmpfs tmpfs "$T"
  mkdir -p "$T/node0/hugepages"; echo "$MEMORY" > "$T/node0/meminfo"
  for i in $(seq 0 $(($(cat "$LAB/cpus") - 1))); do
    mkdir -p "$T/node0/cpu$i/topology"; echo 1 > "$T/node0/cpu$i/online"
    echo $i > "$T/node0/cpu$i/topology/core_id"; echo 0 > "$T/node0/cpu$i/topology/physical_package_id"
  done
}
ip link set lo up
cd "$N"; mkdir -p .old; pivot_root . .old; cd /; umount -l /.old
mount --make-rshared /
exec "/lab/inside/$([ "$M" = cp ] && echo control_plane || echo node).sh" "$M"
