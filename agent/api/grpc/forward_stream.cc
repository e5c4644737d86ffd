// SPDX-License-Identifier: Apache-2.0
// PortForward: one connection to a port of a pod.
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/session_stream.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr uint32_t kMaxPort = 65535;

class ForwardStream final : public SessionStream<v1::PortForwardRequest, v1::PortForwardResponse> {
 public:
  ForwardStream(ServerCore& core, std::string peer)
      : SessionStream(core, std::move(peer), SessionKind::kForward) {}

 private:
  Result<SessionPlan> Plan(v1::PortForwardRequest& first) override {
    const v1::PortForwardRequest::Start& start = first.start();
    if (start.port() < 1 || start.port() > kMaxPort) {
      return InvalidArgument(StrCat("port ", start.port(), ": must be between 1 and 65535"));
    }
    ASSIGN_OR_RETURN(const PodPtr pod,
                     FindPod(core().node.pods(), start.namespace_(), start.pod()));
    const auto port = static_cast<uint16_t>(start.port());
    return SessionPlan{
        Entry(Method::kPortForward, StrCat(start.namespace_(), "/", start.pod()),
              pod->metadata().uid(), StrCat(port)),
        [&node = core().node, target = ForwardTargetOf(*pod), port]() -> Result<SessionEnds> {
          auto ends = DialOpener(node, target, port)();
          if (ends) return ends;
          return Error(ends.error().code(), ForwardError(target, port, ends.error()));
        }};
  }

  bool Take(v1::PortForwardRequest& message) override { return Feed(message.data(), "data"); }

  bool FillBegin(v1::PortForwardResponse& /*message*/) override { return true; }

  void FillOutput(StreamOutput /*output*/, std::string bytes,
                  v1::PortForwardResponse& message) override {
    message.set_data(std::move(bytes));
  }
};

}  // namespace

grpc::ServerBidiReactor<v1::PortForwardRequest, v1::PortForwardResponse>*
NodeAgentService::PortForward(grpc::CallbackServerContext* context) {
  using Reactor = grpc::ServerBidiReactor<v1::PortForwardRequest, v1::PortForwardResponse>;
  return Stream<ForwardStream, Reactor>(*context, Method::kPortForward);
}

}  // namespace holdfast::agent::api
