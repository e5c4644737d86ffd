#!/bin/bash
# Scenario in a full systemd guest, without the units: Services under the real agent (tests/e2e/services) on a
# kernel that has IPVS, so that the agent is seen in that mode too.
# needs: tests/e2e/services tests/support/machine.py tests/support/suite.py
set -u
uname -r
# The agent's cgroup stands at the root; systemd delegates these to its own units only.
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
modprobe ip_vs || exit 1
exec unshare --net --mount --propagation private python3 tests/e2e/services/services_test.py /payload/bin
