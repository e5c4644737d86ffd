#!/bin/bash
# Scenario in a full systemd guest: what Services cost in IPVS, which the build machine's kernel lacks: our back end beside
# `ipvsadm -R` (bench_services --ipvs), and our agent beside kube-proxy, both in IPVS mode (tests/bench/kubeproxy). An
# emulated machine: only the ratios within a row say something. A benchmark, so it runs by name:
#   packaging/install-deps --bench && ninja -C build/bench && GUESTS=ipvs_bench tests/vm/run bookworm
# named: yes
# benchmarks: bench_services
# tools: ipvsadm ipset openssl
# kubernetes: etcd kube-apiserver kube-proxy
# needs: tests/bench/kubeproxy tests/bench/table.py tests/support/machine.py tests/support/control_plane.py
# memory: 4096
set -u
uname -r
export PATH=/payload/bin:$PATH
./link-libraries
modprobe ip_vs && modprobe dummy || exit 1
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
code=0
unshare --net --mount --propagation private bench_services --ipvs --sizes 1000,5000 --json /tmp/rows.json || code=1
for program in etcd kube-apiserver kube-proxy; do echo "$program=/payload/bin/$program"; done > /tmp/peers
unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash -c '
  mount -t tmpfs tmpfs /run && exec python3 "$@"' bash tests/bench/kubeproxy/kubeproxy.py /payload/bin --json /tmp/kube.json \
  --peers /tmp/peers --mode ipvs --modes ipvs --sizes 1000 --rounds 2 --changes 5 --patience 600 || code=1
cat /tmp/kube.json >> /tmp/rows.json
python3 tests/bench/table.py /tmp/rows.json | sed 's/^/note: /'
exit "$code"
