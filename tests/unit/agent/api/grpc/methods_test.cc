// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::api {
namespace {

TEST(MethodsTest, EveryRpcOfTheProtoHasARow) {
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

TEST(MethodsTest, EachRoleMayWhatItsRowSays) {
  const auto may = [](access::Role role, Method method) {
    return access::Permits(role).Has(RowOf(method).operation);
  };
  EXPECT_TRUE(may(access::Role::kViewer, Method::kListPods));
  EXPECT_FALSE(may(access::Role::kViewer, Method::kLogs));
  EXPECT_FALSE(may(access::Role::kViewer, Method::kExec));
  EXPECT_TRUE(may(access::Role::kLogs, Method::kLogs));
  EXPECT_FALSE(may(access::Role::kLogs, Method::kApply));
  EXPECT_TRUE(may(access::Role::kOperator, Method::kApply));
  EXPECT_FALSE(may(access::Role::kOperator, Method::kExec));
  EXPECT_TRUE(may(access::Role::kExec, Method::kExec));
  EXPECT_FALSE(may(access::Role::kExec, Method::kDelete));
  for (const MethodRow& row : kMethods)
    EXPECT_TRUE(may(access::Role::kAdmin, row.method)) << row.name;
}

}  // namespace
}  // namespace holdfast::agent::api
