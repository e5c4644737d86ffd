// SPDX-License-Identifier: Apache-2.0
// What a caller may send: size of messages, metadata and texts. A refused call leaves its
// connection as it was.
#include <string>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

class LimitsTest : public ServerFixture {
 protected:
  grpc::Status Apply(const std::string& manifest, const std::string& origin) {
    grpc::ClientContext context;
    v1::ApplyRequest request;
    request.set_manifest(manifest);
    request.set_origin(origin);
    v1::ApplyResponse response;
    return stub_->Apply(&context, request, &response);
  }
  grpc::Status Version(const std::string& metadata) {
    grpc::ClientContext context;
    if (!metadata.empty()) context.AddMetadata("x-filler", metadata);
    v1::VersionResponse version;
    return stub_->Version(&context, v1::VersionRequest(), &version);
  }
};

TEST_F(LimitsTest, AManifestIsAtMost4MiB) {
  const std::string largest(4 << 20, 'a');
  EXPECT_TRUE(Apply(largest, "web.yaml").ok());
  const grpc::Status refused = Apply(largest + "a", "web.yaml");
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "manifest: more than 4 MiB");
  EXPECT_EQ(applied_.size(), 1u);
}

TEST_F(LimitsTest, AMessageIsAtMostAManifestAndAFrame) {
  EXPECT_EQ(Apply(std::string((4 << 20) + (64 << 10), 'a'), "web.yaml").error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(applied_.empty());
  EXPECT_TRUE(Version("").ok());
}

TEST_F(LimitsTest, MetadataIsAtMost8KiB) {
  EXPECT_TRUE(Version(std::string(7 << 10, 'a')).ok());
  EXPECT_EQ(Version(std::string(9 << 10, 'a')).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  // gRPC may end the connection over it; the client then makes another.
  EXPECT_TRUE(Eventually([&] { return Version("").ok(); }));
}

// Each fault of a manifest begins with its origin, and each audit line holds it.
TEST_F(LimitsTest, AnOriginIsAtMost4KiBAndCutInTheAuditLog) {
  EXPECT_TRUE(Apply("kind: Pod", std::string(4096, 'o')).ok());
  const grpc::Status refused = Apply("kind: Pod", std::string(1 << 20, 'o'));
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "origin: more than 4096 bytes");
  EXPECT_EQ(applied_.size(), 1u);
  EXPECT_LT(AuditText().size(), 8192u);  // four lines
  EXPECT_NE(AuditText().find("ooo...\""), std::string::npos);
}

TEST_F(LimitsTest, ALabelSelectorIsAtMost4KiB) {
  const auto list = [&](const std::string& selector) {
    grpc::ClientContext context;
    v1::ListPodsRequest request;
    request.set_label_selector(selector);
    v1::ListPodsResponse response;
    return stub_->ListPods(&context, request, &response);
  };
  EXPECT_TRUE(list(std::string(4096, 'a')).ok());
  const grpc::Status refused = list(std::string(4097, 'a'));
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "label selector: more than 4096 bytes");
}

}  // namespace
}  // namespace holdfast::agent
