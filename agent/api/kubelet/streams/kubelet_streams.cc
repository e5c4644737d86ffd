// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/kubelet_streams.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <string>

#include "agent/api/kubelet/streams/channel_command.h"
#include "agent/api/kubelet/streams/channel_forward.h"
#include "agent/api/kubelet/streams/http_answer.h"
#include "agent/api/kubelet/streams/run_command.h"
#include "agent/api/kubelet/streams/spdy_command.h"
#include "agent/api/kubelet/streams/spdy_forward.h"
#include "agent/api/kubelet/streams/targets.h"
#include "agent/api/kubelet/streams/tls_carrier.h"
#include "agent/api/kubelet/streams/web_socket.h"
#include "agent/api/kubelet/streams/wire/protocols.h"
#include "agent/api/kubelet/streams/wire/upgrade.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

namespace http = boost::beast::http;

constexpr size_t kThreads = 16;  // dialling may wait some seconds for a listener
constexpr size_t kWaitingJobs = 4096;

void Refuse(UpgradedConnection connection, const Refusal& refusal) {
  Answer(std::move(connection), refusal.status, "text/plain; charset=utf-8", refusal.text);
}

void NoteCaller(const UpgradedConnection& connection, access::AuditEntry& entry) {
  entry.user = connection.user;
  entry.from = connection.from;
}

void RefuseWithoutUpgrade(UpgradedConnection connection) {
  Refuse(std::move(connection), {400, "unable to upgrade: missing upgrade headers in request"});
}

bool Contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string InBrackets(const std::vector<std::string>& words) {
  return StrCat("[", Join(words, " "), "]");
}

// What both sides could not agree on.
void RefuseProtocols(UpgradedConnection connection, const std::vector<std::string>& offered,
                     const std::vector<std::string>& accepted) {
  if (offered.empty()) {
    return Refuse(std::move(connection), {400, StrCat("unable to upgrade: \"", kProtocolVersion,
                                                      "\" header is required")});
  }
  HeaderLines lines;
  for (const std::string& name : accepted) {
    lines.emplace_back("X-Accepted-Stream-Protocol-Versions", name);
  }
  Answer(std::move(connection), 403, "text/plain; charset=utf-8",
         StrCat("unable to upgrade: unable to negotiate protocol: client supports ",
                InBrackets(offered), ", server accepts ", InBrackets(accepted)),
         lines);
}

HeaderLines SpdyAnswer(const std::string& protocol) {
  return {{"Connection", "Upgrade"}, {"Upgrade", "SPDY/3.1"}, {kProtocolVersion, protocol}};
}

}  // namespace

KubeletStreams::KubeletStreams(NodeOperations& node, access::AuditLog& audit,
                               std::chrono::milliseconds idle_limit)
    : node_(node),
      workers_({.name = "streams", .threads = kThreads, .queued = kWaitingJobs}),
      context_{node, audit, [this](std::function<void()> job) { workers_.Post(std::move(job)); },
               idle_limit} {}

KubeletStreams::~KubeletStreams() = default;

Result<void> KubeletStreams::Start() { return workers_.Start(); }

void KubeletStreams::ShutDown() {
  std::optional<boost::asio::any_io_executor> executor;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    executor = executor_;
  }
  if (executor) {
    std::promise<void> stopped;
    boost::asio::post(*executor, [&] {
      Stop();
      stopped.set_value();
    });
    stopped.get_future().wait();
  }
  workers_.Finish();
}

void KubeletStreams::Stop() {
  for (const auto& each : std::exchange(connections_, {})) {
    if (const auto connection = each.lock()) connection->Drop();
  }
}

// False once it is shut down.
bool KubeletStreams::Enter(const boost::asio::any_io_executor& executor) {
  const std::lock_guard lock(mutex_);
  if (!stopped_ && !executor_) executor_ = executor;
  return !stopped_;
}

bool KubeletStreams::IsStopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

size_t KubeletStreams::count() const {
  return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(),
                                           [](const auto& each) { return !each.expired(); }));
}

void KubeletStreams::Keep(const std::shared_ptr<StreamConnection>& connection) {
  std::erase_if(connections_, [](const auto& each) { return each.expired(); });
  connections_.push_back(connection);
}

void KubeletStreams::Take(UpgradedConnection connection) {
  if (!Enter(connection.stream.get_executor())) {
    return Refuse(std::move(connection), {503, "the agent is stopping"});
  }
  if (count() >= kMaxConnections) {
    return Refuse(std::move(connection), {503, "too many streams are open on this node"});
  }
  const auto method = connection.request.method();
  if (method != http::verb::get && method != http::verb::post) {
    return Answer(std::move(connection), 405, "text/plain; charset=utf-8",
                  "405: Method Not Allowed", {{"Allow", "GET, POST"}});
  }
  const auto target = connection.request.target();
  auto request = ParseStreamRequest({target.data(), target.size()});
  if (!request) return Refuse(std::move(connection), request.error());
  Route(std::move(connection), std::move(*request));
}

void KubeletStreams::Route(UpgradedConnection connection, StreamRequest request) {
  switch (request.verb) {
    case StreamVerb::kRun:
      return Run(std::move(connection), std::move(request));
    case StreamVerb::kPortForward:
      return Forward(std::move(connection), request);
    case StreamVerb::kExec:
    case StreamVerb::kAttach:
      return Command(std::move(connection), std::move(request));
  }
}

// 101 only once the container was found: before, a refusal is plain text that kubectl shows.
void KubeletStreams::Command(UpgradedConnection connection, StreamRequest request) {
  auto target = FindCommandTarget(node_.pods(), std::move(request));
  if (!target) return Refuse(std::move(connection), target.error());
  NoteCaller(connection, target->audit);
  const Upgrade upgrade = ReadUpgrade(connection.request);
  if (upgrade.to == UpgradeTo::kNothing) return RefuseWithoutUpgrade(std::move(connection));
  if (upgrade.to == UpgradeTo::kWebSocket) {
    auto protocol = ChooseChannelProtocol(upgrade.offered);
    if (!protocol) return Refuse(std::move(connection), {403, "no sub-protocol in common"});
    return Keep(
        StartChannelCommand(context_, std::move(connection), *protocol, std::move(*target)));
  }
  const auto protocol = ChooseSpdyProtocol(upgrade.offered);
  if (!protocol) return RefuseProtocols(std::move(connection), upgrade.offered, SpdyProtocols());
  SwitchProtocols(
      std::move(connection), SpdyAnswer(protocol->name),
      [this, protocol = *protocol, target = std::move(*target)](UpgradedConnection c) {
        if (IsStopped()) return;
        const auto executor = c.stream.get_executor();
        Keep(StartSpdyCommand(context_, executor, CarryTls(std::move(c)), protocol, target));
      });
}

void KubeletStreams::Forward(UpgradedConnection connection, const StreamRequest& request) {
  auto target = FindForwardTarget(node_.pods(), request);
  if (!target) return Refuse(std::move(connection), target.error());
  NoteCaller(connection, target->audit);
  const Upgrade upgrade = ReadUpgrade(connection.request);
  if (upgrade.to == UpgradeTo::kNothing) return RefuseWithoutUpgrade(std::move(connection));
  if (upgrade.to == UpgradeTo::kWebSocket) {
    return ForwardMessages(std::move(connection), upgrade.offered, std::move(*target),
                           request.ports);
  }
  if (!Contains(upgrade.offered, kForwardProtocol)) {
    return RefuseProtocols(std::move(connection), upgrade.offered, {kForwardProtocol});
  }
  SwitchProtocols(std::move(connection), SpdyAnswer(kForwardProtocol),
                  [this, target = std::move(*target)](UpgradedConnection c) {
                    if (IsStopped()) return;
                    const auto executor = c.stream.get_executor();
                    Keep(StartSpdyForward(context_, executor, CarryTls(std::move(c)), target));
                  });
}

void KubeletStreams::ForwardMessages(UpgradedConnection connection,
                                     const std::vector<std::string>& offered, PodForward target,
                                     const std::vector<std::string>& ports) {
  if (Contains(offered, kTunnelProtocol)) {
    const auto executor = connection.stream.get_executor();
    const auto socket = MakeWebSocket(std::move(connection));
    return socket->Accept(kTunnelProtocol, [this, socket, executor, target](bool ok) {
      if (ok && !IsStopped()) {
        Keep(StartSpdyForward(context_, executor, CarryMessages(socket), target));
      }
    });
  }
  auto parsed = ParsePorts(ports);
  if (!parsed) return Refuse(std::move(connection), parsed.error());
  const auto protocol = ChooseForwardProtocol(offered);
  if (!protocol) return Refuse(std::move(connection), {403, "no sub-protocol in common"});
  Keep(StartChannelForward(context_, std::move(connection), *protocol, std::move(target), *parsed));
}

void KubeletStreams::Run(UpgradedConnection connection, StreamRequest request) {
  request.output = request.error = true;
  request.input = request.tty = false;
  auto target = FindCommandTarget(node_.pods(), std::move(request));
  if (!target) return Refuse(std::move(connection), target.error());
  NoteCaller(connection, target->audit);
  Keep(StartRun(context_, std::move(connection), std::move(*target)));
}

}  // namespace holdfast::agent::streams
