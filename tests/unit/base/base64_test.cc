// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace holdfast {
namespace {

TEST(Base64Test, AgreesWithRfc4648) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes);
  }
  EXPECT_EQ(DecodeBase64("Zm9v\nYg==\n"), "foob");
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zg===", "Z===", "====", "Zg==Zg==", "Zm9v!", "Zm 9v"}) {
    EXPECT_FALSE(DecodeBase64(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace holdfast
