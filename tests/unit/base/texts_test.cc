// SPDX-License-Identifier: Apache-2.0
// Texts as Go has them.
#include <gtest/gtest.h>

#include "holdfast/base/grpc_code.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/whole_number.h"

namespace holdfast {
namespace {

TEST(HostPortTest, AnAddressWithColonsIsInBrackets) {
  EXPECT_EQ(JoinHostPort("192.0.2.1", 80), "192.0.2.1:80");
  EXPECT_EQ(JoinHostPort("2001:db8::1", 65535), "[2001:db8::1]:65535");
  EXPECT_EQ(JoinHostPort("localhost", 1), "localhost:1");
}

TEST(GrpcCodeTest, EveryCodeHasItsName) {
  EXPECT_EQ(GrpcCodeName(0), "OK");
  EXPECT_EQ(GrpcCodeName(14), "Unavailable");
  EXPECT_EQ(GrpcCodeName(16), "Unauthenticated");
  EXPECT_EQ(GrpcCodeName(17), "Code(17)");
}

TEST(WholeNumberTest, IsAllOfATextOrNothing) {
  EXPECT_EQ(WholeNumber<int>("-12"), -12);
  EXPECT_EQ(WholeNumber<uint16_t>("65535"), 65535);
  for (const char* text : {"", "+1", " 1", "1 ", "1.0", "0x1", "-1", "65536"}) {
    EXPECT_FALSE(WholeNumber<uint16_t>(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast
