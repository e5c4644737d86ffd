// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1 and server reflection, as generic clients use them: by name and bytes, without our
// generated code.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <vector>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

class StandardServicesTest : public ServerFixture {
 protected:
  void SetUp() override {
    ServerFixture::SetUp();
    stub_of_any_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateChannel("unix:" + options_.socket_path, grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  }
  void TearDown() override {
    stub_of_any_.reset();
    ServerFixture::TearDown();
  }
  // Whether the operation that was just begun succeeded.
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  std::string CheckHealth(const std::string& service, grpc::Status* status) {
    // message HealthCheckRequest { string service = 1; }
    std::string request;
    if (!service.empty())
      request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    const auto call = stub_of_any_->PrepareUnaryCall(&context_, "/grpc.health.v1.Health/Check",
                                                     ToBuffer(request), &queue_);
    grpc::ByteBuffer response;
    call->StartCall();
    call->Finish(&response, status, nullptr);
    EXPECT_TRUE(Next());
    return ToString(response);
  }

  std::unique_ptr<grpc::GenericStub> stub_of_any_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
};

// message HealthCheckResponse { ServingStatus status = 1; }, SERVING = 1
constexpr char kServing[] = "\x08\x01";

TEST_F(StandardServicesTest, TheServerIsHealthy) {
  grpc::Status status;
  EXPECT_EQ(CheckHealth("", &status), kServing);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(StandardServicesTest, TheServiceIsHealthyByName) {
  grpc::Status status;
  EXPECT_EQ(CheckHealth("holdfast.v1.NodeAgent", &status), kServing);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(StandardServicesTest, AnotherServiceIsNotKnown) {
  grpc::Status status;
  CheckHealth("holdfast.v1.Nobody", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardServicesTest, ReflectionListsTheServices) {
  const auto call = stub_of_any_->PrepareCall(
      &context_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue_);
  call->StartCall(nullptr);
  ASSERT_TRUE(Next());
  // message ServerReflectionRequest { oneof { string list_services = 7; … } }
  call->Write(ToBuffer("\x3a\x01*"), nullptr);
  ASSERT_TRUE(Next());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(Next());
  const std::string listed = ToString(response);
  for (const char* service : {"holdfast.v1.NodeAgent", "grpc.health.v1.Health",
                              "grpc.reflection.v1alpha.ServerReflection"}) {
    EXPECT_NE(listed.find(service), std::string::npos) << service;
  }
  call->WritesDone(nullptr);
  ASSERT_TRUE(Next());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(Next());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace holdfast::agent
