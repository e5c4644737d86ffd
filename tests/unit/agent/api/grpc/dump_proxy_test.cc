// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using DumpProxyTest = ServerFixture;

TEST_F(DumpProxyTest, SendsALongTextInPieces) {
  services_.rules = "# proxy mode nftables\n" + std::string(200'000, 'x') + "\n";
  grpc::ClientContext context;
  const auto reader = stub_->DumpProxy(&context, v1::DumpProxyRequest());
  std::string text;
  int parts = 0;
  for (v1::DumpProxyResponse part; reader->Read(&part); ++parts) text += part.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(text, *services_.rules);
  EXPECT_EQ(parts, 4);
}

TEST_F(DumpProxyTest, SaysThatThereAreNoRulesYet) {
  grpc::ClientContext context;
  const auto reader = stub_->DumpProxy(&context, v1::DumpProxyRequest());
  v1::DumpProxyResponse part;
  EXPECT_FALSE(reader->Read(&part));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "service proxy: no rules are written yet");
}

}  // namespace
}  // namespace holdfast::agent
