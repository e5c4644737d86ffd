// SPDX-License-Identifier: Apache-2.0
// Who may do what: operations, roles, and the one table from method to operation.
// Pure values; thread-safe. Default is deny: a peer without a role gets no connection, a method
// without a row does not compile.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::api {

enum class Operation : uint8_t {
  kReadStatus,  // objects and their status
  kReadData,    // logs, environment variables, image content: may hold secrets
  kMutate,      // change what runs; whoever applies manifests can become root by a privileged pod
  kExec,        // run programs in containers
  kNodeAdmin,   // repair the node
};

class OperationSet {
 public:
  constexpr OperationSet() = default;
  constexpr OperationSet(std::initializer_list<Operation> operations) {
    for (Operation operation : operations) bits_ |= Bit(operation);
  }
  static constexpr OperationSet All() {
    return {Operation::kReadStatus, Operation::kReadData, Operation::kMutate, Operation::kExec,
            Operation::kNodeAdmin};
  }
  constexpr bool Has(Operation operation) const { return (bits_ & Bit(operation)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr OperationSet operator|(OperationSet other) const {
    OperationSet both;
    both.bits_ = static_cast<uint8_t>(bits_ | other.bits_);
    return both;
  }
  auto operator<=>(const OperationSet&) const = default;

 private:
  static constexpr uint8_t Bit(Operation operation) {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(operation));
  }
  uint8_t bits_ = 0;
};

enum class Role : uint8_t { kViewer, kLogs, kOperator, kExec, kAdmin };

constexpr OperationSet Permits(Role role) {
  using enum Operation;
  switch (role) {
    case Role::kViewer:
      return {kReadStatus};
    case Role::kLogs:
      return {kReadStatus, kReadData};
    case Role::kOperator:
      return {kReadStatus, kReadData, kMutate};
    case Role::kExec:
      return {kReadStatus, kReadData, kExec};
    case Role::kAdmin:
      return OperationSet::All();
  }
  return {};
}

enum class Method : uint8_t {
  kListPods,
  kGetPod,
  kWatchPods,
  kListEvents,
  kWatchEvents,
  kGetNode,
  kListServices,
  kListEndpointSlices,
  kExplainService,
  kDumpProxy,
  kListImages,
  kGetImage,
  kImportImage,
  kExportImage,
  kRemoveImage,
  kLogs,
  kExec,
  kApply,
  kDelete,
  kCheck,
  kCheckRepair,  // Check with repair
  kVersion,
  kCount,
};

struct MethodRow {
  Method method;
  std::string_view name;  // as in the .proto
  Operation operation;
};

inline constexpr std::array<MethodRow, static_cast<size_t>(Method::kCount)> kMethods = {{
    {Method::kListPods, "ListPods", Operation::kReadStatus},
    {Method::kGetPod, "GetPod", Operation::kReadStatus},
    {Method::kWatchPods, "WatchPods", Operation::kReadStatus},
    {Method::kListEvents, "ListEvents", Operation::kReadStatus},
    {Method::kWatchEvents, "WatchEvents", Operation::kReadStatus},
    {Method::kGetNode, "GetNode", Operation::kReadStatus},
    {Method::kListServices, "ListServices", Operation::kReadStatus},
    {Method::kListEndpointSlices, "ListEndpointSlices", Operation::kReadStatus},
    {Method::kExplainService, "ExplainService", Operation::kReadStatus},
    {Method::kDumpProxy, "DumpProxy", Operation::kReadStatus},
    {Method::kListImages, "ListImages", Operation::kReadStatus},
    {Method::kGetImage, "GetImage", Operation::kReadStatus},
    {Method::kImportImage, "ImportImage", Operation::kMutate},
    {Method::kExportImage, "ExportImage", Operation::kReadData},
    {Method::kRemoveImage, "RemoveImage", Operation::kMutate},
    {Method::kLogs, "Logs", Operation::kReadData},
    {Method::kExec, "Exec", Operation::kExec},
    {Method::kApply, "Apply", Operation::kMutate},
    {Method::kDelete, "Delete", Operation::kMutate},
    {Method::kCheck, "Check", Operation::kReadStatus},
    {Method::kCheckRepair, "Check repair", Operation::kNodeAdmin},
    {Method::kVersion, "Version", Operation::kReadStatus},
}};

constexpr const MethodRow& RowOf(Method method) { return kMethods[static_cast<size_t>(method)]; }

consteval bool MethodTableIsComplete() {
  for (size_t i = 0; i < kMethods.size(); ++i) {
    if (static_cast<size_t>(kMethods[i].method) != i || kMethods[i].name.empty()) return false;
  }
  return true;
}
static_assert(MethodTableIsComplete(), "every Method needs its row, in order");

// Which groups give which role. Built once at start from the group file.
struct RoleTable {
  uid_t own_uid = 0;
  std::map<gid_t, Role> groups;
  gid_t socket_group = 0;  // owner group of the socket; 0 (root) when api_group is absent
};

// Reads `group_text` (/etc/group's format). `api_group` itself gives operator; api_group +
// "-viewer",
// "-logs", "-operator", "-exec", "-admin" give the role of that name. Lines that cannot be read are
// skipped.
RoleTable ReadRoleTable(std::string_view group_text, const std::string& api_group, uid_t own_uid);

// Root and the agent's own user: everything. Otherwise the union of the peer's role groups; when it
// is in none but in api_group: operator. Empty: refuse.
OperationSet OperationsOf(const RoleTable& table, uid_t uid, const std::vector<gid_t>& groups);

}  // namespace holdfast::agent::api
