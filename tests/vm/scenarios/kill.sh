#!/bin/bash
# Scenario in a full systemd guest, without the units: the kill sweep of tests/e2e/kill on this kernel
# and on cgroup v2. `full` kills at every pause point first, then 30 times at random, with TESTS=random only that; otherwise 6 times
# at random only.
# needs: tests/e2e/kill tests/support/machine.py tests/support/journal.py tests/support/arrivals.py
# programs: pause-points
# full: trixie
# timeout: 10800
set -u
uname -r
# The sweep's cgroup stands at the root; systemd delegates these to its own units only.
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
kills=6 points=--no-points
if [ -e /payload/full ]; then
  kills=30
  # PROGRAMS=build/release has none.
  if [ "$(cat /payload/only)" = random ]; then echo "note: no pause points"
  elif grep -q HOLDFAST_PAUSE_AT /payload/bin/holdfastd; then points=
  else echo "note: programs without pause points"; fi
fi
# On a disk, as on a node: Debian 13's /tmp is a tmpfs, and a keeper whose run directory is one mounts none.
export TMPDIR=/var/tmp
# In the first network namespace, as under systemd: only there the kernel tells the ends of processes.
exec unshare --mount --propagation private \
  python3 tests/e2e/kill/kill.py --bin /payload/bin --image /payload/images/busybox.tar --kills "$kills" $points \
    --seed "${SEED:-61}" --patience 6 --pace 200 --log-size 1
