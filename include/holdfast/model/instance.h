// SPDX-License-Identifier: Apache-2.0
// Instance: every root, name and port of one agent. No other file of the product holds a path
// literal of the host, so several agents can run on one machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::model {

struct Instance {
  std::string node_name;                       // lower case; suffix of static pods' names
  std::string root_dir = "/var/lib/holdfast";  // survives a reboot: images, pods, address book
  std::string run_dir = "/run/holdfast";       // a tmpfs: sockets, spools, exit records
  std::string pod_log_dir = "/var/log/pods";   // <ns>_<pod>_<uid>/<container>/<n>.log
  std::string container_log_dir = "/var/log/containers";  // symlinks into pod_log_dir
  std::string manifest_dir = "/etc/holdfast/manifests";
  // cgroup below which our `kubepods` tree lies, relative to each controller's mount point;
  // "" is the root (stand-alone), "/system.slice/holdfast-pods.service" under systemd.
  std::string cgroup_parent;
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string interface_prefix = "hf";  // host side of a pod's veth
  std::string table_name = "holdfast";  // nftables table (families ip and ip6)
  std::vector<std::string> pod_cidrs = {"10.88.0.0/16", "fd00:88::/64"};  // one per family
  std::string cluster_domain = "cluster.local";
  std::vector<std::string> cluster_dns;
  std::string resolv_conf = "/etc/resolv.conf";  // the node's, for dnsPolicy Default
  std::string api_group = "holdfast";            // group that may use the API socket, if it exists

  std::string KeeperDir() const { return run_dir + "/keeper"; }
  std::string KeeperSocket() const { return run_dir + "/keeper.sock"; }
  std::string LogSocket() const { return run_dir + "/log.sock"; }
  std::string ApiSocket() const { return run_dir + "/holdfastd.sock"; }
  std::string AuditLog() const { return root_dir + "/audit/audit.log"; }
  std::string PodFilesDir() const { return run_dir + "/pods"; }
  std::string WrittenVolumesDir() const { return run_dir + "/volumes"; }
  std::string ImageDir() const { return root_dir + "/images"; }
  std::string PodsDir() const { return root_dir + "/pods"; }
  std::string NetworkDir() const { return root_dir + "/network"; }
  // Where a tree goes that cannot be removed (sys/tree.h), on the file system that it is of.
  std::string AsideDir() const { return root_dir + "/aside"; }
  std::string LogAsideDir() const { return pod_log_dir + "/.aside"; }
};

}  // namespace holdfast::model
