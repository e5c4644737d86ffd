// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/verdict.h"

#include <gtest/gtest.h>

#include "runtime/image/pull/media_type.h"
#include "runtime/image/pull/token.h"

namespace holdfast::runtime {
namespace {

using Next = Verdict::Next;
using std::chrono::milliseconds;

FetchEnd Answer(int status) {
  FetchEnd end;
  end.head.status = status;
  return end;
}

Attempt At(const std::string& url) {
  Attempt attempt;
  attempt.url = url;
  return attempt;
}

TEST(VerdictTest, WhatPassesIsTriedAgainWithGrowingWaits) {
  Attempt attempt = At("https://a/");
  std::vector<int64_t> waits;
  while (true) {
    const Verdict verdict = Judge(Answer(503), "GET", attempt);
    if (verdict.next == Next::kFail) break;
    waits.push_back(verdict.wait.count());
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{500, 1000, 2000, 4000}));
}

TEST(VerdictTest, RetryAfterIsObeyedWithinReason) {
  Attempt attempt = At("https://a/");
  FetchEnd end = Answer(429);
  end.head.retry_after = "30";
  EXPECT_EQ(Judge(end, "GET", attempt).wait, milliseconds(30'000));
  end.head.retry_after = "61";
  EXPECT_EQ(Judge(end, "GET", attempt).next, Next::kFail);
  for (const char* text : {"-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999999999999"}) {
    Attempt fresh = At("https://a/");
    end.head.retry_after = text;
    EXPECT_EQ(Judge(end, "GET", fresh).wait, milliseconds(500)) << text;
  }
}

TEST(VerdictTest, RedirectsNeverLeaveTls) {
  const auto follows = [](const std::string& from, const std::string& to) {
    Attempt attempt = At(from);
    FetchEnd end = Answer(307);
    end.end.location = to;
    return Judge(end, "GET", attempt).next == Next::kFollow;
  };
  EXPECT_TRUE(follows("https://a/x", "https://b/y"));
  EXPECT_TRUE(follows("http://a/x", "https://b/y"));
  EXPECT_TRUE(follows("http://a/x", "http://a:81/y"));
  EXPECT_FALSE(follows("https://a/x", "http://a/y"));
  EXPECT_FALSE(follows("http://a/x", "http://b/y"));
  EXPECT_FALSE(follows("https://a/x", "ftp://b/y"));
  EXPECT_FALSE(follows("https://a/x", ""));
}

TEST(VerdictTest, ARefusedCertificateIsNotTriedAgain) {
  Attempt attempt = At("https://a/");
  FetchEnd end;
  end.end.certificate = true;
  end.end.error = "self-signed certificate";
  const Verdict verdict = Judge(end, "GET", attempt);
  EXPECT_EQ(verdict.next, Next::kFail);
  EXPECT_EQ(verdict.error.code(), Code::kPermissionDenied);
}

TEST(TokenTest, TheServiceIsAskedForTheRightToPullOnly) {
  const auto https = *fetch::ParseAddress("https://registry.example/v2");
  const auto url = [&](const std::string& scope) {
    return *TokenUrl({"bearer", "https://auth.example/token", "the reg", scope, ""}, {"org/app"},
                     https);
  };
  const std::string own =
      "https://auth.example/token?service=the%20reg&scope=repository:org/app:pull";
  EXPECT_EQ(url(""), own);
  EXPECT_EQ(url("repository:org/app:pull,push"), own) << "nobody needs to push here";
  EXPECT_EQ(url("repository:a:pull repository:b:pull"), own);
  EXPECT_EQ(url("registry:catalog:*"), own);
  EXPECT_TRUE(
      url("repository:proxy/org/app:pull").ends_with("scope=repository:proxy/org/app:pull"));
}

TEST(TokenTest, WhoPushesAsksForThatAndForWhatIsTakenOver) {
  const auto https = *fetch::ParseAddress("https://registry.example/v2");
  const auto scopes = [&](const std::string& scope, std::vector<std::string> sources) {
    const std::string url = *TokenUrl({"bearer", "https://auth.example/token?a=b", "", scope, ""},
                                      {"org/app", true, std::move(sources)}, https);
    EXPECT_TRUE(url.starts_with("https://auth.example/token?a=b&scope=")) << url;
    return url.substr(url.find("scope="));
  };
  const std::string own = "scope=repository:org/app:pull,push";
  EXPECT_EQ(scopes("", {}), own);
  EXPECT_EQ(scopes("repository:org/app:pull", {}), own) << "one token for all of it";
  EXPECT_EQ(scopes("repository:org/app:delete", {}), own);
  EXPECT_EQ(scopes("repository:org/app:*", {}), own);
  EXPECT_EQ(scopes("repository:proxy/org/app:push,pull", {}),
            "scope=repository:proxy/org/app:pull,push");
  EXPECT_EQ(scopes("", {"base", "other/base"}),
            own + "&scope=repository:base:pull&scope=repository:other/base:pull");
}

TEST(TokenTest, TheServiceHasTlsUnlessItIsTheRegistryItself) {
  const auto plain = *fetch::ParseAddress("http://localhost:5000/v2");
  const auto secure = *fetch::ParseAddress("https://localhost/v2");
  const fetch::Challenge challenge{"bearer", "http://localhost:5001/token", "", "", ""};
  EXPECT_TRUE(TokenUrl(challenge, {"a"}, plain));
  EXPECT_FALSE(TokenUrl(challenge, {"a"}, secure));
  EXPECT_FALSE(TokenUrl({"bearer", "http://elsewhere/token", "", "", ""}, {"a"}, plain));
  EXPECT_FALSE(TokenUrl({"bearer", "token", "", "", ""}, {"a"}, secure));
}

TEST(TokenTest, RepliesThatHoldNoTokenAreRefused) {
  EXPECT_EQ(*ReadTokenReply(R"({"token":"a.b-c","expires_in":300})"), "Bearer a.b-c");
  EXPECT_EQ(*ReadTokenReply(R"({"access_token":"x"})"), "Bearer x");
  for (const char* text :
       {"", "[]", "{}", R"({"token":1})", R"({"token":"a\r\nX: y"})", R"({"token":"a b"})"}) {
    EXPECT_FALSE(ReadTokenReply(text)) << text;
  }
}

TEST(TokenTest, BasicNeedsALoginAndBearerComesFirst) {
  const std::vector<fetch::Challenge> both = {{"basic", "x", "", "", ""},
                                              {"bearer", "https://a/t", "", "", ""}};
  EXPECT_EQ(ChooseChallenge(both, true)->scheme, "bearer");
  EXPECT_EQ(ChooseChallenge({both[0]}, true)->scheme, "basic");
  EXPECT_FALSE(ChooseChallenge({both[0]}, false));
  EXPECT_FALSE(ChooseChallenge({{"negotiate", "", "", "", ""}}, true));
  EXPECT_EQ(BasicAuthorization({"Aladdin", "open sesame"}), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(BasicAuthorization({"a", ""}), "Basic YTo=");
}

TEST(MediaTypeTest, HeaderThenDocumentThenNothing) {
  constexpr char kManifest[] = "application/vnd.oci.image.manifest.v1+json";
  EXPECT_EQ(*ManifestType("application/vnd.oci.image.index.v1+json; charset=utf-8", "{}"),
            "application/vnd.oci.image.index.v1+json");
  EXPECT_EQ(*ManifestType("application/json", std::string(R"({"mediaType":")") + kManifest + "\"}"),
            kManifest);
  EXPECT_FALSE(ManifestType("application/json", R"({"layers":[]})"));
  EXPECT_FALSE(ManifestType("text/html", "<html>"));
  EXPECT_EQ(
      ManifestType("application/vnd.docker.distribution.manifest.v1+json", "{}").error().code(),
      Code::kUnsupported);
}

}  // namespace
}  // namespace holdfast::runtime
