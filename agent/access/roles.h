// SPDX-License-Identifier: Apache-2.0
// Who may do what: operations, and the roles that permit them. Every API says of each of its
// methods which operation it is. Pure values; thread-safe. Default is deny: a peer without a role
// may nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::access {

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

}  // namespace holdfast::agent::access
