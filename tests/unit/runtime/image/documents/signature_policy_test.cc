// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/signature_policy.h"

#include <gtest/gtest.h>

#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr char kAccept[] = R"([{"type": "insecureAcceptAnything"}])";
constexpr char kReject[] = R"([{"type": "reject"}])";

std::string Admitted(const SignaturePolicy& policy, const std::string& name) {
  const auto admitted = policy.AdmitPull(ParseReference(name).value());
  return admitted ? "" : admitted.error().message();
}

std::string Refused(const std::string& text) {
  const auto policy = SignaturePolicy::Parse(text);
  return policy ? "" : policy.error().message();
}

TEST(SignaturePolicyTest, WithoutOneEverythingMayBePulled) {
  EXPECT_EQ(Admitted(SignaturePolicy(), "nginx"), "");
}

TEST(SignaturePolicyTest, TheNearestScopeDecides) {
  const auto policy = SignaturePolicy::Parse(std::string(R"({"default": )") + kReject + R"(,
    "transports": {"docker-daemon": {"": )" + kAccept +
                                             R"(}, "docker": {
      "docker.io/library/nginx": )" + kAccept +
                                             R"(,
      "docker.io/library/nginx:1.0": )" + kReject +
                                             R"(,
      "registry.example/team": )" + kAccept + R"(,
      "registry.example/team/app/old": )" + kReject +
                                             R"(,
      "*.corp.example": )" + kAccept + R"(,
      "bad.corp.example": )" + kReject + R"(,
      "bad.corp.example:5000": )" + kReject + R"(,
      "*.com": )" + kAccept + R"(,
      "*.a.com": )" + kReject + R"(}}})");
  ASSERT_TRUE(policy) << policy.error().message();
  for (const char* name : {"nginx", "nginx:1.1", "registry.example/team/app:1", "a.corp.example/x",
                           "a.b.corp.example/x/y:2", "registry.example/team/app/older",
                           "a.corp.example:5000/x", "b.com/x", "a.com/x"}) {
    EXPECT_EQ(Admitted(*policy, name), "") << name;
  }
  for (const char* name : {"nginx:1.0", "busybox", "registry.example/teams/app:1", "corp.example/x",
                           "registry.example/team/app/old:7", "bad.corp.example/x",
                           "bad.corp.example:5000/x", "x.a.com/x"}) {
    EXPECT_NE(Admitted(*policy, name), "") << name;
  }
  EXPECT_EQ(Admitted(*policy, "busybox"),
            "SignatureValidationFailed: Source image rejected: Running image "
            "docker://docker.io/library/busybox:latest is rejected by policy.");
  const std::string digest = "nginx@sha256:" + std::string(64, 'a');
  EXPECT_EQ(Admitted(*policy, digest), "") << "by its repository: it has no tag";
}

// What podman says of such imports.
TEST(SignaturePolicyTest, AnImportIsJudgedByItsTransport) {
  const auto policy = SignaturePolicy::Parse(std::string(R"({"default": )") + kReject + R"(,
    "transports": {"docker": {"": )" + kAccept +
                                             R"(}, "oci-archive": {"": )" + kAccept + "}}}");
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_TRUE(policy->AdmitImport(ImportKind::kOciArchive));
  for (const ImportKind kind :
       {ImportKind::kOciDirectory, ImportKind::kDockerArchive, ImportKind::kRootTar}) {
    EXPECT_FALSE(policy->AdmitImport(kind));
  }
  EXPECT_TRUE(SignaturePolicy().AdmitImport(ImportKind::kRootTar));
}

TEST(SignaturePolicyTest, TheEmptyScopeIsTheTransportsAndAllRequirementsCount) {
  const auto policy = SignaturePolicy::Parse(std::string(R"({"default": )") + kAccept + R"(,
    "transports": {"docker": {"": [{"type": "insecureAcceptAnything"}, {"type": "reject"}]}}})");
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_NE(Admitted(*policy, "nginx"), "");
}

TEST(SignaturePolicyTest, WhatCannotBeKeptToIsRefused) {
  const std::string head = std::string(R"({"default": )") + kAccept;
  const auto transports = [&](const std::string& text) {
    return Refused(StrCat(head, R"(, "transports": )", text, "}"));
  };
  EXPECT_EQ(transports(R"({"docker": {"r.example": [{"type": "signedBy",
                           "keyType": "GPGKeys", "keyPath": "/k"}]}})"),
            "transports: docker: \"r.example\": \"signedBy\" wants a signature, and signatures are "
            "not checked here");
  EXPECT_NE(Refused(R"({"default": [{"type": "sigstoreSigned"}]})"), "");
  EXPECT_EQ(transports(StrCat(R"({"oci-archive": {"/images": )", kReject, "}}")),
            "transports: oci-archive: \"/images\": only the scope \"\" is known here");
  EXPECT_EQ(transports(StrCat(R"({"oci": {"": )", kReject, "}}")),
            "transports: \"oci\" says something else than \"oci-archive\": a directory is imported "
            "as an archive here");
  EXPECT_EQ(
      transports(StrCat(R"({"oci": {"": )", kReject, R"(}, "oci-archive": {"": )", kReject, "}}")),
      "");
  EXPECT_EQ(transports(StrCat(R"({"docekr": {"": )", kReject, "}}")),
            "transports: unknown transport \"docekr\"");
  EXPECT_EQ(transports(StrCat(R"({"docker-daemon": {"a:1": )", kReject, "}}")), "")
      << "nothing comes from there";
  EXPECT_EQ(Refused(R"({"transports": {}})"), "no default");
}

TEST(SignaturePolicyTest, WhatIsNoPolicyIsRefused) {
  const std::string head = std::string(R"({"default": )") + kAccept;
  for (const char* rest :
       {R"(, "more": 1})", R"(, "transports": []})", R"(, "transports": {"docker": []}})",
        R"(, "transports": {"docker": {"a": []}}})", R"(, "transports": {"docker": {"a": [1]}}})",
        R"(, "transports": {"docker": {"a": [{"type": "maybe"}]}}})",
        R"(, "transports": {"docker": {"a": [{"type": 1}]}}})",
        R"(, "transports": {"docker": {"a": [{}]}}})",
        R"(, "transports": {"docker": {"a": [{"type": "reject", "more": 1}]}}})", ""}) {
    EXPECT_NE(Refused(head + rest), "") << rest;
  }
  // Readers differ in which of two fields counts.
  for (const char* rest :
       {R"(, "default": [{"type": "reject"}]})", R"(, "transports": {}, "transports": {}})",
        R"(, "transports": {"docker": {}, "docker": {}}})",
        R"(, "transports": {"docker": {"a": [{"type": "reject"}], "a": [{"type": "reject"}]}}})",
        R"(, "transports": {"docker": {"a": [{"type": "reject", "type": "reject"}]}}})"}) {
    EXPECT_NE(Refused(head + rest).find("is there twice"), std::string::npos) << rest;
  }
}

}  // namespace
}  // namespace holdfast::runtime
