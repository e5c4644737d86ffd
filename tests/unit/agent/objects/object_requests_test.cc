// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/object_requests.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

// As a server 1.36.3 says it just after the pod was bound.
TEST(ObjectRequestsTest, WhatLagsBehindTheBindingIsKnownByItsWords) {
  const auto reply = [](int code, const char* message) {
    ApiReply out;
    out.code = code;
    out.message = message;
    return out;
  };
  EXPECT_TRUE(IsTooEarly(reply(403,
                               "configmaps \"a\" is forbidden: User \"system:node:n1\" cannot get "
                               "resource \"configmaps\" in "
                               "API group \"\" in the namespace \"default\": no relationship found "
                               "between node 'n1' and this "
                               "object")));
  EXPECT_TRUE(IsTooEarly(reply(
      403,
      "serviceaccounts \"default\" is forbidden: node requested token bound to a pod scheduled "
      "on a different node")));
  EXPECT_TRUE(IsTooEarly(reply(404, "pod \"web-1\" not found")));
  EXPECT_FALSE(IsTooEarly(reply(404, "pods \"web-1\" not found")));
  EXPECT_FALSE(IsTooEarly(reply(403, "serviceaccounts \"default\" is forbidden: no")));
  EXPECT_FALSE(IsTooEarly(reply(404, "no relationship found")));
}

}  // namespace
}  // namespace holdfast::agent
