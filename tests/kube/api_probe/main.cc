// SPDX-License-Identifier: Apache-2.0
// kube_api_probe KUBECONFIG get|watch|storm PATH: calls by ClusterApi, printed. `get`: code,
// content type, kind or reason. `watch`: a line per event, and "ended". `storm`: so many GETs at once, and how long.
#include <chrono>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "agent/cluster/cluster_api.h"
#include "agent/kube/codec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

constexpr char kInitialEventsEnd[] = "k8s.io/initial-events-end";
using Pod = k8s::io::api::core::v1::Pod;

std::string DescribeReply(const Result<ApiReply>& reply) {
  if (!reply) return "error: " + reply.error().message();
  std::string out = std::to_string(reply->code) + " " + reply->content_type;
  if (!reply->ok()) return out + " " + reply->reason + ": " + reply->message;
  const auto object = kube::DecodeEnvelope(reply->body);
  return out + " " + (object ? kube::TypeMetaOf(**object).kind : object.error().message());
}

std::string DescribeEvent(std::string_view type, std::string_view object) {
  const auto decoded = kube::DecodeEnvelope(object);
  if (!decoded) return std::string(type) + " " + decoded.error().message();
  const auto* pod = dynamic_cast<const Pod*>(decoded->get());
  if (pod == nullptr) return std::string(type) + " " + kube::TypeMetaOf(**decoded).kind;
  const auto& meta = pod->metadata();
  return std::string(type) + " " + meta.name() + " " + pod->status().phase() +
         (meta.annotations().contains(kInitialEventsEnd) ? " all are known" : "");
}

void Watch(ClusterApi& api, ApiCall call) {
  std::promise<std::string> ended;
  const auto ticket = api.Watch(
      std::move(call),
      [](std::string_view type, std::string_view object) {
        std::cout << DescribeEvent(type, object) << std::endl;
      },
      [&](const Result<void>& end) { ended.set_value(end ? "ended" : end.error().message()); },
      [&](const ApiReply& reply) { ended.set_value("refused: " + DescribeReply(reply)); });
  std::cout << ended.get_future().get() << std::endl;
}

void Get(ClusterApi& api, ApiCall call) {
  std::promise<std::string> answered;
  const auto ticket = api.Send(std::move(call), [&](const Result<ApiReply>& reply) {
    answered.set_value(DescribeReply(reply));
  });
  std::cout << answered.get_future().get() << std::endl;
}

// Many at once, so that they need more than one connection; each refusal is told.
void Storm(ClusterApi& api, const ApiCall& call) {
  constexpr int kCalls = 500;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<TicketPtr> tickets;
  std::promise<void> all;
  int left = kCalls;  // of the API thread
  for (int i = 0; i < kCalls; ++i) {
    tickets.push_back(api.Send(call, [&](const Result<ApiReply>& reply) {
      if (!reply || !reply->ok()) std::cout << DescribeReply(reply) << std::endl;
      if (--left == 0) all.set_value();
    }));
  }
  all.get_future().get();
  const auto spent = std::chrono::steady_clock::now() - begin;
  std::cout << kCalls << " answers in "
            << std::chrono::duration_cast<std::chrono::milliseconds>(spent).count() << " ms"
            << std::endl;
}

int Run(const std::string& file, const std::string& verb, const std::string& path) {
  auto config = ReadKubeConfig(file);
  if (!config) {
    std::cerr << config.error().message() << std::endl;
    return 1;
  }
  ClusterApiOptions options;
  options.config = std::move(*config);
  auto api = ClusterApi::Start(std::move(options));
  if (!api) {
    std::cerr << api.error().message() << std::endl;
    return 1;
  }
  ApiCall call;
  call.path = path;
  call.repeatable = true;
  if (verb == "watch") {
    Watch(**api, std::move(call));
  } else if (verb == "storm") {
    Storm(**api, call);
  } else {
    Get(**api, std::move(call));
  }
  return 0;
}

}  // namespace
}  // namespace holdfast::agent

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return holdfast::agent::Run(argv[1], argv[2], argv[3]);
}
