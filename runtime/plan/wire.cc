// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/wire.h"

#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/plan/wire_archive.h"
#include "runtime/plan/wire_check.h"

namespace holdfast::runtime {
namespace {

using namespace model;

constexpr uint32_t kMagic = 0x4c504648;  // "HFPL"
constexpr uint32_t kVersion = 6;

template <class A>
struct Codec;

// What List() does with each element.
constexpr auto kText = [](auto& a, auto& v) { a.Text(v); };
constexpr auto kNumber = [](auto& a, auto& v) { a.Number(v); };
constexpr auto kFd = [](auto& a, auto& v) { a.Fd(v); };
constexpr auto kStruct = []<class A>(A& a, auto& v) { Codec<A>::Fields(a, v); };

// Every field of every plan, once, for both directions.
template <class A>
struct Codec {
  template <class T>
  using Ref = typename A::template Ref<T>;

  static void Fields(A& a, Ref<IdMapEntry> v) {
    a.Number(v.inside);
    a.Number(v.outside);
    a.Number(v.count);
  }
  static void Fields(A& a, Ref<NamespacePlan> v) {
    a.Fd(v.network);
    a.Fd(v.ipc);
    a.Fd(v.uts);
    a.Fd(v.user);
    a.Fd(v.pid);
    a.Flag(v.new_pid);
    a.Flag(v.new_cgroup);
    a.Flag(v.new_time);
  }
  static void Fields(A& a, Ref<CgroupPlan> v) {
    a.Fd(v.unified);
    a.List(v.attach, kFd);
  }
  static void Fields(A& a, Ref<RootPlan> v) {
    a.List(v.layers, kText);
    a.Text(v.scratch);
    a.Flag(v.read_only);
    a.Number(v.owner);
  }
  static void Fields(A& a, Ref<MountPlan> v) {
    a.Choice(v.kind, MountPlan::Kind::kShared);
    a.Fd(v.source);
    a.Text(v.destination);
    a.Text(v.options);
    a.Number(v.size_bytes);
    a.Number(v.mode);
    a.Flag(v.read_only);
    a.Flag(v.recursive_read_only);
    a.Flag(v.no_suid);
    a.Flag(v.no_dev);
    a.Flag(v.no_exec);
    a.Flag(v.strict_atime);
    a.Choice(v.propagation, MountPlan::Propagation::kShared);
  }
  static void Fields(A& a, Ref<DevicePlan> v) {
    a.Text(v.path);
    a.Flag(v.block);
    a.Number(v.major);
    a.Number(v.minor);
    a.Number(v.mode);
    a.Number(v.uid);
    a.Number(v.gid);
  }
  static void Fields(A& a, Ref<CapabilityPlan> v) {
    a.Number(v.bounding);
    a.Number(v.effective);
    a.Number(v.permitted);
    a.Number(v.inheritable);
    a.Number(v.ambient);
  }
  static void Fields(A& a, Ref<BpfInstruction> v) {
    a.Number(v.code);
    a.Number(v.jt);
    a.Number(v.jf);
    a.Number(v.k);
  }
  static void Fields(A& a, Ref<SeccompPlan> v) {
    a.List(v.program, kStruct);
    a.Flag(v.log);
    a.Flag(v.spec_allow);
  }
  static void Fields(A& a, Ref<RlimitPlan> v) {
    a.Number(v.resource);
    a.Number(v.soft);
    a.Number(v.hard);
  }
  static void Fields(A& a, Ref<StdioPlan> v) {
    a.Fd(v.in);
    a.Fd(v.out);
    a.Fd(v.err);
    a.Flag(v.tty);
    a.Number(v.rows);
    a.Number(v.columns);
  }
  static void Fields(A& a, Ref<ProcessPlan> v) {
    a.List(v.argv, kText);
    a.List(v.env, kText);
    a.Text(v.cwd);
    a.Number(v.uid);
    a.Number(v.gid);
    a.List(v.groups, kNumber);
    Fields(a, v.capabilities);
    a.Flag(v.no_new_privs);
    Fields(a, v.seccomp);
    a.Text(v.app_armor);
    a.Text(v.selinux);
    a.List(v.rlimits, kStruct);
    a.Number(v.oom_score_adj);
    a.Number(v.umask);
    Fields(a, v.stdio);
  }
  static void Fields(A& a, Ref<LaunchPlan> v) {
    Fields(a, v.namespaces);
    Fields(a, v.cgroup);
    Fields(a, v.root);
    a.List(v.mounts, kStruct);
    a.List(v.devices, kStruct);
    a.Fd(v.host_devices);
    a.List(v.masked_paths, kText);
    a.List(v.read_only_paths, kText);
    a.Text(v.selinux);
    Fields(a, v.process);
  }
  static void Fields(A& a, Ref<ExecPlan> v) {
    a.Fd(v.target);
    a.Flag(v.join_user);
    a.Flag(v.shares_pid_namespace);
    Fields(a, v.cgroup);
    Fields(a, v.process);
  }
  static void Fields(A& a, Ref<SandboxPlan> v) {
    a.Flag(v.network);
    a.Flag(v.ipc);
    a.Flag(v.uts);
    a.List(v.uid_map, kStruct);
    a.List(v.gid_map, kStruct);
    a.Text(v.hostname);
    a.Map(v.sysctls);
    a.Number(v.shm_size_bytes);
    a.Fd(v.init_binary);
    Fields(a, v.init_cgroup);
    a.Text(v.init_selinux);
  }
};

template <class T>
Plan ReadAs(WireReader& reader) {
  T plan;
  Codec<WireReader>::Fields(reader, plan);
  return plan;
}

}  // namespace

std::string SerializePlan(const Plan& plan) {
  WireWriter writer;
  writer.Number(kMagic);
  writer.Number(kVersion);
  writer.Number(static_cast<uint8_t>(plan.index()));
  std::visit([&](const auto& p) { Codec<WireWriter>::Fields(writer, p); }, plan);
  return writer.Take();
}

Result<Plan> ParsePlan(std::string_view bytes, size_t fd_count) {
  if (bytes.size() > kMaxPlanBytes) return InvalidArgument("parse plan: too large");
  WireReader reader(bytes, fd_count);
  uint32_t magic = 0;
  uint32_t version = 0;
  uint8_t kind = 0;
  reader.Number(magic);
  reader.Number(version);
  reader.Number(kind);
  if (!reader.ok() || magic != kMagic) return InvalidArgument("parse plan: not a plan");
  if (version != kVersion) return Unsupported(StrCat("parse plan: version ", version));
  Plan plan;
  switch (kind) {
    case 0:
      plan = ReadAs<LaunchPlan>(reader);
      break;
    case 1:
      plan = ReadAs<ExecPlan>(reader);
      break;
    case 2:
      plan = ReadAs<SandboxPlan>(reader);
      break;
    default:
      return InvalidArgument("parse plan: unknown kind of plan");
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("bytes are left over");
  if (!reader.ok()) return InvalidArgument(StrCat("parse plan: ", reader.error()));
  RETURN_IF_ERROR(CheckPlan(plan));
  return plan;
}

}  // namespace holdfast::runtime
