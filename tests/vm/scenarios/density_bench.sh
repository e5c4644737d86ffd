#!/bin/bash
# Scenario in a full systemd guest: what an idle pod costs on cgroup v2, which the build machine lacks (tests/bench/density), beside
# the limit program. Memory is what it is in an emulated machine too. A benchmark, so it runs by name:
#   packaging/install-deps --bench && ninja -C build/bench && PROGRAMS=build/bench GUESTS=density_bench tests/vm/run trixie
# named: yes
# benchmarks: bench_start_limit
# needs: tests/bench/density tests/bench/sleepers.py tests/bench/table.py tests/support/machine.py packaging/make-image
# memory: 3072
set -u
uname -r
export HOLDFAST_PATIENCE=6
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash -c '
  mount -t tmpfs tmpfs /tmp && exec python3 "$@"' bash tests/bench/density/density.py /payload/bin --json /root/rows.json --pods 100 || exit 1
python3 tests/bench/table.py /root/rows.json | sed 's/^/note: /'
