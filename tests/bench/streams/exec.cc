// SPDX-License-Identifier: Apache-2.0
// bench_exec SOCKET NAMESPACE POD N: `true` in a running container over the gRPC API, N times one after the other; prints
// {"p50","p99"} in milliseconds from the call to the exit code.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "holdfast/v1/node_agent.grpc.pb.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

void RunOnce(v1::NodeAgent::Stub& api, const std::string& name_space, const std::string& pod) {
  ::grpc::ClientContext context;
  const auto stream = api.Exec(&context);
  v1::ExecRequest request;
  request.mutable_start()->set_namespace_(name_space);
  request.mutable_start()->set_pod(pod);
  request.mutable_start()->add_argv("true");
  stream->Write(request);
  v1::ExecResponse response;
  bool ended = false;
  while (stream->Read(&response)) ended = response.has_exit() && response.exit().code() == 0;
  const ::grpc::Status status = stream->Finish();
  if (!status.ok() || !ended) Die("exec: " + status.error_message());
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  if (argc != 5) Die("usage: SOCKET NAMESPACE POD N");
  const auto api = holdfast::v1::NodeAgent::NewStub(
      ::grpc::CreateChannel(std::string("unix:") + argv[1], ::grpc::InsecureChannelCredentials()));
  RunOnce(*api, argv[2], argv[3]);  // connects
  std::vector<double> took;
  for (int i = std::atoi(argv[4]); i > 0; --i) {
    const Clock::time_point begin = Clock::now();
    RunOnce(*api, argv[2], argv[3]);
    took.push_back(MicrosecondsSince(begin) / 1000);
  }
  std::printf("%s\n", Figures(Of(took)).c_str());
}
