// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/roles.h"

#include <gtest/gtest.h>

#include <string>

#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::api {
namespace {

constexpr char kGroups[] =
    "root:x:0:\n"
    "broken line\n"
    "holdfast:x:100:alice,bob\n"
    "holdfast-viewer:x:101:\n"
    "holdfast-exec:x:102:\n"
    "holdfast-logs:x:103:\n"
    "holdfast-admin:x:104:\n"
    "holdfast-unknown:x:105:\n"
    "other-exec:x:106:";

TEST(RolesTest, EveryRpcOfTheProtoHasARow) {
  const auto* service = v1::VersionRequest::descriptor()->file()->FindServiceByName("NodeAgent");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string& name = service->method(i)->name();
    const auto row = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const MethodRow& r) { return r.name == name; });
    EXPECT_NE(row, kMethods.end()) << name << " has no row in kMethods";
  }
  EXPECT_EQ(static_cast<size_t>(service->method_count()) + 1, kMethods.size());  // Check repair
}

TEST(RolesTest, EachRoleMayWhatItsRowSays) {
  const auto may = [](Role role, Method method) {
    return Permits(role).Has(RowOf(method).operation);
  };
  EXPECT_TRUE(may(Role::kViewer, Method::kListPods));
  EXPECT_FALSE(may(Role::kViewer, Method::kLogs));
  EXPECT_FALSE(may(Role::kViewer, Method::kExec));
  EXPECT_TRUE(may(Role::kLogs, Method::kLogs));
  EXPECT_FALSE(may(Role::kLogs, Method::kApply));
  EXPECT_TRUE(may(Role::kOperator, Method::kApply));
  EXPECT_FALSE(may(Role::kOperator, Method::kExec));
  EXPECT_TRUE(may(Role::kExec, Method::kExec));
  EXPECT_FALSE(may(Role::kExec, Method::kDelete));
  for (const MethodRow& row : kMethods) EXPECT_TRUE(may(Role::kAdmin, row.method)) << row.name;
}

TEST(RolesTest, GroupsGiveRoles) {
  const RoleTable table = ReadRoleTable(kGroups, "holdfast", 900);
  EXPECT_EQ(table.socket_group, 100u);
  EXPECT_EQ(OperationsOf(table, 0, {}), OperationSet::All());
  EXPECT_EQ(OperationsOf(table, 900, {}), OperationSet::All());
  EXPECT_EQ(OperationsOf(table, 1000, {100}), Permits(Role::kOperator));
  // A role group replaces what the plain group gives, several add up.
  EXPECT_EQ(OperationsOf(table, 1000, {100, 101}), Permits(Role::kViewer));
  EXPECT_EQ(OperationsOf(table, 1000, {102, 103}), Permits(Role::kExec));
  EXPECT_EQ(OperationsOf(table, 1000, {104}), OperationSet::All());
}

TEST(RolesTest, StrangersGetNothing) {
  const RoleTable table = ReadRoleTable(kGroups, "holdfast", 0);
  EXPECT_TRUE(OperationsOf(table, 1000, {0, 105, 106, 7}).empty());
  const RoleTable no_group = ReadRoleTable("", "holdfast", 0);
  EXPECT_EQ(no_group.socket_group, 0u);
  EXPECT_TRUE(OperationsOf(no_group, 1000, {0, 100}).empty());
}

}  // namespace
}  // namespace holdfast::agent::api
