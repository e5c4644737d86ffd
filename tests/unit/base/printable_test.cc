// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/printable.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(PrintableTest, EscapesControlCharacters) {
  EXPECT_EQ(Printable("a\tb\nc\rd"), "a\tb\\nc\\rd");
  EXPECT_EQ(Printable("a\nb", Lines::kMany), "a\nb");
  EXPECT_EQ(Printable(std::string_view("\0\x01\x1b\x1f\x7f", 5)), "\\x00\\x01\\x1b\\x1f\\x7f");
  EXPECT_EQ(Printable("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\\u0080\\u009b\\u009f\xc2\xa0");
}

TEST(PrintableTest, EveryByteAloneIsPrintableOrEscaped) {
  for (int c = 0; c < 256; ++c) {
    const std::string one(1, static_cast<char>(c));
    const std::string out = Printable(one);
    const bool plain = (c >= 0x20 && c < 0x7F) || c == '\t';
    EXPECT_EQ(out == one, plain) << c;
    EXPECT_EQ(out.starts_with('\\'), !plain || c == '\\') << c;
  }
}

TEST(PrintableTest, KeepsUtf8AndEscapesWhatIsNone) {
  for (const char* text : {"\xc3\xa4", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x9f\x90\xb3", "\xf4\x8f\xbf\xbf", "plain"}) {
    EXPECT_EQ(Printable(text), text);
  }
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");           // overlong newline
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82");                    // cut off
  EXPECT_EQ(Printable("\xe2\x82\n\xc3"), "\\xe2\\x82\\n\\xc3");
}

}  // namespace
}  // namespace holdfast
