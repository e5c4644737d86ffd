// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/operate/session_openers.h"

#include "agent/access/audit_scope.h"
#include "agent/stream/dial.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

struct AuditedSession {
  AuditedSession(access::AuditLog& log, const access::AuditEntry& what) : scope(log, what) {}
  AuditedSession(const AuditedSession&) = delete;
  AuditedSession& operator=(const AuditedSession&) = delete;
  ~AuditedSession() { scope.Finish(outcome); }

  access::AuditScope scope;
  std::string outcome = "OK";
};

}  // namespace

DescriptorSession::Opener ExecOpener(NodeOperations& node, ContainerId container, ExecSpec spec) {
  return [&node, id = std::move(container), spec = std::move(spec)]() -> Result<SessionEnds> {
    ASSIGN_OR_RETURN(std::unique_ptr<ExecSession> program, node.Exec(id, spec));
    return EndsOfProgram(std::move(program), spec);
  };
}

DescriptorSession::Opener AttachOpener(NodeOperations& node, ContainerId container,
                                       AttachSpec spec) {
  return [&node, id = std::move(container), spec]() -> Result<SessionEnds> {
    ASSIGN_OR_RETURN(AttachedStreams streams, node.Attach(id, spec));
    SessionEnds ends;
    ends.terminal = streams.terminal;
    ends.input = std::move(streams.input);
    ends.output = std::move(streams.output);
    ends.error_output = std::move(streams.error_output);
    if (streams.input_once)
      ends.input_ended = [&node, id] { (void)node.CloseStdin(id); };  // it may have ended
    return ends;
  };
}

ForwardTarget ForwardTargetOf(const corev1::Pod& pod) {
  return {PodUid(pod.metadata().uid()),
          StrCat(pod.metadata().name(), "_", pod.metadata().namespace_()),
          pod.spec().hostnetwork()};
}

DescriptorSession::Opener DialOpener(NodeOperations& node, ForwardTarget target, uint16_t port) {
  return [&node, target = std::move(target), port]() -> Result<SessionEnds> {
    NsFd inside;  // none: the node's own
    if (!target.host_network) {
      ASSIGN_OR_RETURN(inside, node.NetworkNamespace(target.uid));
    }
    ASSIGN_OR_RETURN(UniqueFd socket, DialLoopback(inside.get(), port));
    return EndsOfSocket(std::move(socket));
  };
}

std::string ForwardError(const ForwardTarget& target, uint16_t port, const Error& error) {
  return StrCat("error forwarding port ", port, " to pod ", target.name, ", uid ", target.uid.value,
                ": ", error.message());
}

DescriptorSession::Opener Audited(access::AuditLog& log, access::AuditEntry what,
                                  DescriptorSession::Opener opener) {
  return
      [&log, what = std::move(what), opener = std::move(opener)]() mutable -> Result<SessionEnds> {
        const auto audit = std::make_shared<AuditedSession>(log, what);
        auto ends = opener();
        if (!ends) {
          audit->outcome = access::OutcomeName(ends.error().code());
        } else {
          ends->kept = audit;
        }
        return ends;
      };
}

}  // namespace holdfast::agent
