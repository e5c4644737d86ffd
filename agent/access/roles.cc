// SPDX-License-Identifier: Apache-2.0
#include "agent/access/roles.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace holdfast::agent::access {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 5> kRoleSuffixes = {{
    {"-viewer", Role::kViewer},
    {"-logs", Role::kLogs},
    {"-operator", Role::kOperator},
    {"-exec", Role::kExec},
    {"-admin", Role::kAdmin},
}};

struct GroupLine {
  std::string_view name;
  gid_t gid;
};

// "name:password:gid:members"
std::optional<GroupLine> ParseGroupLine(std::string_view line) {
  const size_t name_end = line.find(':');
  if (name_end == std::string_view::npos || name_end == 0) return std::nullopt;
  const size_t gid_begin = line.find(':', name_end + 1);
  if (gid_begin == std::string_view::npos) return std::nullopt;
  const char* begin = line.data() + gid_begin + 1;
  const char* end = line.data() + line.size();
  gid_t gid = 0;
  const auto [rest, error] = std::from_chars(begin, end, gid);
  if (error != std::errc() || (rest != end && *rest != ':')) return std::nullopt;
  return GroupLine{line.substr(0, name_end), gid};
}

std::optional<Role> RoleOfGroup(std::string_view name, std::string_view api_group) {
  if (!name.starts_with(api_group)) return std::nullopt;
  for (const auto& [suffix, role] : kRoleSuffixes) {
    if (name.substr(api_group.size()) == suffix) return role;
  }
  return std::nullopt;
}

}  // namespace

RoleTable ReadRoleTable(std::string_view group_text, const std::string& api_group, uid_t own_uid) {
  RoleTable table{.own_uid = own_uid, .groups = {}};
  while (!api_group.empty() && !group_text.empty()) {
    const size_t end = group_text.find('\n');
    const auto line = ParseGroupLine(group_text.substr(0, end));
    group_text.remove_prefix(end == std::string_view::npos ? group_text.size() : end + 1);
    if (!line || line->gid == 0) continue;  // gid 0 is no group that a role may hang on
    if (line->name == api_group) {
      table.socket_group = line->gid;
    } else if (const auto role = RoleOfGroup(line->name, api_group)) {
      table.groups.emplace(line->gid, *role);
    }
  }
  return table;
}

OperationSet OperationsOf(const RoleTable& table, uid_t uid, const std::vector<gid_t>& groups) {
  if (uid == 0 || uid == table.own_uid) return OperationSet::All();
  OperationSet operations;
  bool in_api_group = false;
  for (gid_t gid : groups) {
    if (table.socket_group != 0 && gid == table.socket_group) in_api_group = true;
    const auto found = table.groups.find(gid);
    if (found != table.groups.end()) operations = operations | Permits(found->second);
  }
  if (operations.empty() && in_api_group) return Permits(Role::kOperator);
  return operations;
}

}  // namespace holdfast::agent::access
