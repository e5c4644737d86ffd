#!/bin/bash
# Scenario in a full systemd guest, without the units: the attack kit (docs/security.md) in its short form, and
# what tests/e2e/limits reads back, on this kernel, on cgroup v2, and with IPVS, which the build machine may lack.
# needs: tests/security tests/support tests/e2e/pods tests/e2e/limits packaging/make-image
# programs: security-attacker security-proof-node security-proof-image
# memory: 3072
# timeout: 7200
# full: trixie
set -u
uname -r
# The kit's cgroups stand at the root; systemd delegates these to its own units only.
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
modprobe ip_vs || exit 1
export TMPDIR=/var/tmp  # /tmp may be memory
code=0
tests/security/run --bin /payload/bin --patience 6 $(cat only) 2>&1 | tee /tmp/kit.log
[ "${PIPESTATUS[0]}" -eq 0 ] || code=1
sed -n 's/^attacks: /note: &/p' /tmp/kit.log
grep -q '^attacks: ' /tmp/kit.log || { echo "the kit did not come to its end"; code=1; }
unshare --net --mount --propagation private \
  python3 tests/e2e/limits/limits_test.py --patience 6 /payload/bin packaging/make-image test_the_ || code=1
exit $code
