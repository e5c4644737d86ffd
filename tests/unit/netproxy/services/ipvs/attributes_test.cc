// SPDX-License-Identifier: Apache-2.0
// What the kernel answers is taken apart within its bounds, whatever its lengths say.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "holdfast/sys/genl.h"

namespace holdfast::sys {
namespace {

TEST(GenlAttributes, AreTakenApartInOrder) {
  const std::string bytes("\x06\0\x01\0\x2a\0\0\0\x08\0\x02\x80\x01\0\0\0", 16);
  std::string seen;
  ForEachAttribute(bytes, [&](uint16_t type, std::string_view payload) {
    seen += std::to_string(type) + "=" +
            std::to_string(type == 1 ? AttributeU16(payload) : AttributeU32(payload)) + " ";
  });
  EXPECT_EQ(seen, "1=42 2=1 ");
}

TEST(GenlAttributes, LengthsThatLieEndIt) {
  for (const std::string& bytes :
       {std::string("\x03\0\x01\0", 4), std::string("\xff\0\x01\0", 4), std::string("\x05", 1)}) {
    int seen = 0;
    ForEachAttribute(bytes, [&](uint16_t, std::string_view) { ++seen; });
    EXPECT_EQ(seen, 0);
  }
  EXPECT_EQ(AttributeU32(std::string_view("\x01\x02", 2)), 0u);
  EXPECT_EQ(AttributeText(std::string_view("rr\0x", 4)), "rr");
}

TEST(GenlAttributes, AnyBytesStayWithinTheirBounds) {
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 64, 0);
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 12);
    ForEachAttribute(bytes, [&](uint16_t, std::string_view payload) {
      ASSERT_GE(payload.data(), bytes.data());
      ASSERT_LE(payload.data() + payload.size(), bytes.data() + bytes.size());
    });
  }
}

}  // namespace
}  // namespace holdfast::sys
