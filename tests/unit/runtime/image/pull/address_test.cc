// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/wire/address.h"

#include <gtest/gtest.h>

#include "runtime/image/wire/wire.h"

namespace holdfast::runtime::fetch {
namespace {

std::string OriginOf(const std::string& url) {
  const auto address = ParseAddress(url);
  return address ? address->Origin() : address.error().message();
}

TEST(AddressTest, OriginsAreSchemeHostAndPort) {
  EXPECT_EQ(OriginOf("https://Registry.Example/v2/x?y=1"), "https://registry.example:443");
  EXPECT_EQ(OriginOf("HTTP://a:5000"), "http://a:5000");
  EXPECT_EQ(OriginOf("http://[::1]:80/"), "http://[::1]:80");
  EXPECT_EQ(ParseAddress("https://a/b?c")->path, "/b?c");
}

TEST(AddressTest, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const char* url : {"", "a", "//a/b", "ftp://a", "file:///etc/passwd", "https://",
                          "https:///x", "https://user@a/", "https://user:pw@a/", "https://a:0/",
                          "https://a:65536/", "https://a:b/", "https://a/#f", "https://a/\r\nX: y",
                          "https://a /", "https://\xc3\xa4/", "https://a\\b/"}) {
    EXPECT_FALSE(ParseAddress(url)) << url;
  }
  EXPECT_FALSE(ParseAddress("https://a/" + std::string(9000, 'x')));
}

TEST(AddressTest, MessagesShowNeitherSignaturesNorUsers) {
  EXPECT_EQ(Shown("https://s3.example/blob?X-Signature=secret"), "https://s3.example/blob");
  EXPECT_EQ(Shown("https://jane:secret@a/b"), "https://a/b");
  EXPECT_EQ(Shown("https://a/b@c"), "https://a/b@c");
  EXPECT_EQ(ParseAddress("https://jane:secret@a/").error().message().find("secret"),
            std::string::npos);
}

TEST(AddressTest, Loopback) {
  for (const char* url : {"http://localhost:1", "http://127.8.8.8", "http://[::1]"}) {
    EXPECT_TRUE(ParseAddress(url)->IsLoopback()) << url;
  }
  for (const char* url : {"http://127.0.0.1.example", "http://localhost.example", "http://127.1"}) {
    EXPECT_FALSE(ParseAddress(url)->IsLoopback()) << url;
  }
}

TEST(WireTest, MessagesComeBackAsTheyWent) {
  Request request;
  request.id = 7;
  request.url = "https://a/";
  request.headers = {"A: b", "C: d"};
  request.trust = {"pem", "cert", "key", false};
  const auto back = DecodeRequest(EncodeRequest(request));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->headers, request.headers);
  EXPECT_EQ(back->trust, request.trust);
  Head head;
  head.id = 7;
  head.status = 401;
  head.challenges = {{"bearer", "r", "s", "o", "e"}};
  EXPECT_EQ(DecodeHead(*Decode(Encode(FieldsOf(head))))->challenges, head.challenges);
}

TEST(WireTest, BrokenMessagesAreRefused) {
  EXPECT_FALSE(Decode("abc"));
  EXPECT_FALSE(Decode(std::string("\xff\xff\xff\xff", 4)));
  EXPECT_FALSE(DecodeHead({"head", "1"}));
  EXPECT_FALSE(DecodeEnd({"end", "x", "", "0", ""}));
  EXPECT_FALSE(Decode(Encode(Fields(kMaxFields + 1))));
}

}  // namespace
}  // namespace holdfast::runtime::fetch
