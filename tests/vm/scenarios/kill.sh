#!/bin/bash
# Scenario in a full systemd guest, without the units: the kill sweep of tests/e2e/kill on this kernel
# and on cgroup v2; with fewer kills than on the machine unless it is `full`.
# needs: tests/e2e/kill tests/support/machine.py
# full: trixie
set -u
uname -r
# The sweep's cgroup stands at the root; systemd delegates these to its own units only.
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
kills=6
[ ! -e /payload/full ] || kills=30
# In the first network namespace, as under systemd: only there the kernel tells the ends of processes.
exec unshare --mount --propagation private \
  python3 tests/e2e/kill/kill.py --bin /payload/bin --image /payload/images/busybox.tar --kills "$kills" --seed 61 --patience 6
