// SPDX-License-Identifier: Apache-2.0
// The fields of the structs that occur in records, in their order on disk. Each list binds the
// whole struct, so a struct that got a new field does not compile until the field is added here (at
// the end: see codec.h).
#pragma once

#include "holdfast/model/container_spec.h"
#include "runtime/state/codec.h"
#include "runtime/state/records.h"

namespace holdfast::runtime {

template <>
struct IsRecordStruct<model::RootFs> : std::true_type {};
template <>
struct IsRecordStruct<model::MountSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::BlockDevice> : std::true_type {};
template <>
struct IsRecordStruct<model::DeviceSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::NamespaceSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::UserSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::SelinuxOptions> : std::true_type {};
template <>
struct IsRecordStruct<model::SecuritySpec> : std::true_type {};
template <>
struct IsRecordStruct<model::HugePageLimit> : std::true_type {};
template <>
struct IsRecordStruct<model::ResourceSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::LogSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::Rlimit> : std::true_type {};
template <>
struct IsRecordStruct<model::ContainerSpec> : std::true_type {};
template <>
struct IsRecordStruct<model::SandboxSpec> : std::true_type {};
template <>
struct IsRecordStruct<SandboxRecord> : std::true_type {};
template <>
struct IsRecordStruct<ContainerRecord> : std::true_type {};
template <>
struct IsRecordStruct<ContainerBrief> : std::true_type {};

void VisitFields(auto& visit, Is<model::RootFs> auto& value) {
  auto& [layers, scratch, read_only] = value;
  visit(layers, scratch, read_only);
}
void VisitFields(auto& visit, Is<model::MountSpec> auto& value) {
  auto& [kind, source, sub_path, destination, read_only, recursive, propagation, size, root,
         relabel] = value;
  visit(kind, source, sub_path, destination, read_only, recursive, propagation, size, root,
        relabel);
}
void VisitFields(auto& visit, Is<model::BlockDevice> auto& value) {
  auto& [major, minor, mode, uid, gid] = value;
  visit(major, minor, mode, uid, gid);
}
void VisitFields(auto& visit, Is<model::DeviceSpec> auto& value) {
  auto& [device, destination, read_only] = value;
  visit(device, destination, read_only);
}
void VisitFields(auto& visit, Is<model::NamespaceSpec> auto& value) {
  auto& [network, ipc, uts, pid, private_time, pid_of] = value;
  visit(network, ipc, uts, pid, private_time, pid_of);
}
void VisitFields(auto& visit, Is<model::UserSpec> auto& value) {
  auto& [image_user, user, group, non_root, groups, strict] = value;
  visit(image_user, user, group, non_root, groups, strict);
}
void VisitFields(auto& visit, Is<model::SelinuxOptions> auto& value) {
  auto& [user, role, type, level] = value;
  visit(user, role, type, level);
}
void VisitFields(auto& visit, Is<model::SecuritySpec> auto& value) {
  auto& [privileged, escalation, add, drop, unmasked, seccomp, profile, app_armor, selinux] = value;
  visit(privileged, escalation, add, drop, unmasked, seccomp, profile, app_armor, selinux);
}
void VisitFields(auto& visit, Is<model::HugePageLimit> auto& value) {
  auto& [page, limit] = value;
  visit(page, limit);
}
void VisitFields(auto& visit, Is<model::ResourceSpec> auto& value) {
  auto& [cpu_request, cpu_limit, memory_limit, pids_limit, oom_score_adj, hugepages, swap_limit,
         memory_min, memory_low, memory_high] = value;
  visit(cpu_request, cpu_limit, memory_limit, pids_limit, oom_score_adj, hugepages, swap_limit,
        memory_min, memory_low, memory_high);
}
void VisitFields(auto& visit, Is<model::LogSpec> auto& value) {
  auto& [path, max_size, max_files] = value;
  visit(path, max_size, max_files);
}
void VisitFields(auto& visit, Is<model::Rlimit> auto& value) {
  auto& [type, soft, hard] = value;
  visit(type, soft, hard);
}
void VisitFields(auto& visit, Is<model::ContainerSpec> auto& value) {
  auto& [id, pod_uid, pod_namespace, pod_name, name, attempt, root_fs, mounts, argv, env,
         working_dir, hostname, user, security, namespaces, resources, qos, rlimits, log,
         stdin_open, stdin_once, tty, stop_signal, devices] = value;
  visit(id, pod_uid, pod_namespace, pod_name, name, attempt, root_fs, mounts, argv, env,
        working_dir, hostname, user, security, namespaces, resources, qos, rlimits, log, stdin_open,
        stdin_once, tty, stop_signal, devices);
}
void VisitFields(auto& visit, Is<model::SandboxSpec> auto& value) {
  auto& [uid, pod_namespace, pod_name, hostname, host_network, host_pid, host_ipc, host_users,
         share_process_namespace, qos, resources, sysctls, shm_size, owner, selinux] = value;
  visit(uid, pod_namespace, pod_name, hostname, host_network, host_pid, host_ipc, host_users,
        share_process_namespace, qos, resources, sysctls, shm_size, owner, selinux);
}
void VisitFields(auto& visit, Is<SandboxRecord> auto& value) {
  auto& [spec, created_at, selinux_level] = value;
  visit(spec, created_at, selinux_level);
}
void VisitFields(auto& visit, Is<ContainerRecord> auto& value) {
  auto& [spec, created_at] = value;
  visit(spec, created_at);
}
void VisitFields(auto& visit, Is<ContainerBrief> auto& value) {
  auto& [pod_uid, name, attempt, qos, own_pid_namespace, scratch, stdin_pipe] = value;
  visit(pod_uid, name, attempt, qos, own_pid_namespace, scratch, stdin_pipe);
}

}  // namespace holdfast::runtime
