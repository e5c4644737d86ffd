// SPDX-License-Identifier: Apache-2.0
// RuntimeTest: a fixture with a RuntimeNode and its runtime, which go in order.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "holdfast/interfaces/container_runtime.h"
#include "tests/support/containers/runtime_node.h"

namespace holdfast::test_support {

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    runtime_ = node_->Open();
  }
  void TearDown() override {
    runtime_.reset();
    node_.reset();
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
};

}  // namespace holdfast::test_support
