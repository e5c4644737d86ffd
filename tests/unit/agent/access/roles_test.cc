// SPDX-License-Identifier: Apache-2.0
#include "agent/access/roles.h"

#include <gtest/gtest.h>

namespace holdfast::agent::access {
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
}  // namespace holdfast::agent::access
