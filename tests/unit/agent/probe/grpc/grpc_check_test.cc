// SPDX-License-Identifier: Apache-2.0
// The gRPC check against gRPC's own health service.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/probe/check_runner_fixture.h"

namespace holdfast::agent {
namespace {

TEST_F(CheckRunnerTest, GrpcHealth) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  grpc::CallbackGenericService others;  // gRPC makes no server without one
  builder.RegisterCallbackGenericService(&others);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const auto server = builder.BuildAndStart();
  ASSERT_TRUE(server);
  auto* health = server->GetHealthCheckService();
  health->SetServingStatus("db", false);
  const auto grpc_port = static_cast<uint16_t>(port);
  EXPECT_EQ(Run(GrpcCheck{"127.0.0.1", grpc_port, ""}),
            (CheckOutcome{kSuccess, "service healthy"}));
  EXPECT_EQ(Run(GrpcCheck{"127.0.0.1", grpc_port, "db"}),
            (CheckOutcome{kFailure, "service unhealthy (responded with \"NOT_SERVING\")"}));
  const CheckOutcome unknown = Run(GrpcCheck{"127.0.0.1", grpc_port, "nobody"});
  EXPECT_EQ(unknown.how, kFailure);
  EXPECT_TRUE(
      unknown.text.starts_with("error: health rpc probe failed: rpc error: code = NotFound"))
      << unknown.text;
  server->Shutdown();
  const uint16_t dead = DeadPort();
  EXPECT_EQ(Run(GrpcCheck{"127.0.0.1", dead, ""}, seconds(1)).text,
            StrCat("timeout: failed to connect service \"127.0.0.1:", dead,
                   "\" within 1s: context deadline exceeded"));
  const PlainServer http({"HTTP/1.1 400 Bad Request\r\n\r\n"});
  EXPECT_EQ(Run(GrpcCheck{"127.0.0.1", http.port(), ""}, seconds(5)).how, kFailure);
}

}  // namespace
}  // namespace holdfast::agent
