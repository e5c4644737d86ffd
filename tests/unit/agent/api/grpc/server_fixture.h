// SPDX-License-Identifier: Apache-2.0
// The whole server over its real socket, as its own user, and a client of it.
#pragma once

#include <memory>

#include "tests/support/api_fixture.h"

namespace holdfast::agent {

class ServerFixture : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    options_.pending_changes = 500;
    StartServer();
    stub_ = NewStub();
  }
  void TearDown() override {
    stub_.reset();
    ApiFixture::TearDown();
  }

  std::unique_ptr<v1::NodeAgent::Stub> stub_;
};

}  // namespace holdfast::agent
