#!/bin/bash
# Scenario in a full systemd guest: two nodes of ours in a cluster with a real control plane, and its Services in each mode
# by turns, in IPVS too, which the build machine's kernel lacks. A quarter of an hour on an emulated machine, so it runs by name:
#   GUESTS=cluster tests/vm/run bookworm
# named: yes
# tools: busybox wget openssl
# kubernetes: etcd kube-apiserver kube-controller-manager kube-scheduler kubectl coredns kubemark
# needs: tests/kube tests/support packaging/make-image packaging/kubernetes
# memory: 6144
set -u
uname -r
export PATH=/payload/bin:$PATH HOLDFAST_PATIENCE=8
./link-libraries
printf "[req]\ndistinguished_name = name\n[name]\n" > /tmp/openssl.cnf  # the program came without its package
export OPENSSL_CONF=/tmp/openssl.cnf
modprobe ip_vs && modprobe dummy || exit 1
echo "+cpu +cpuset +io +memory +pids +hugetlb" > /sys/fs/cgroup/cgroup.subtree_control
for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl coredns kubemark; do
  echo "$program=/payload/bin/$program"
done > /tmp/programs
tests/kube/apart python3 tests/kube/cluster_test.py /payload/bin packaging/make-image /tmp/programs \
  workloads.test_a_deployment_is_answered workloads.test_each_proxy_mode
