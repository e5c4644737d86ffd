// SPDX-License-Identifier: Apache-2.0
// The whole server over its real socket, as its own user, and a client of it.
#pragma once

#include <fstream>
#include <memory>

#include "holdfast/base/address_sanitizer.h"
#include "tests/support/api_fixture.h"

#if HOLDFAST_ADDRESS_SANITIZER
// Of <sanitizer/allocator_interface.h>, which g++ does not bring along.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace holdfast::agent {

// Of this program, the server's among it.
inline size_t ResidentBytes() {
#if HOLDFAST_ADDRESS_SANITIZER
  // It keeps what was freed for a while (its quarantine): what is allocated is what counts there.
  return __sanitizer_get_current_allocated_bytes();
#endif
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * 4096;
}

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
