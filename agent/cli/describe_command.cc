// SPDX-License-Identifier: Apache-2.0
// describe: one or several pods for a person to read.
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/describe.h"
#include "agent/cli/output.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

int DescribeOne(Session& session, const core::Pod& pod) {
  grpc::ClientContext context;
  v1::ListEventsRequest request;
  request.set_namespace_(pod.metadata().namespace_());
  request.set_involved_kind("Pod");
  request.set_involved_uid(pod.metadata().uid());
  v1::ListEventsResponse response;
  const grpc::Status status = session.stub().ListEvents(&context, request, &response);
  if (!status.ok()) return Report(status);
  const std::vector<core::Event> events(response.events().begin(), response.events().end());
  const std::string text = DescribePod(pod, events, CurrentTime());
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kOk;
}

int DescribeAll(Session& session) {
  grpc::ClientContext context;
  v1::ListPodsRequest request;
  if (!session.options().all_namespaces) request.set_namespace_(session.options().name_space);
  v1::ListPodsResponse response;
  const grpc::Status status = session.stub().ListPods(&context, request, &response);
  if (!status.ok()) return Report(status);
  int code = kOk;
  for (int i = 0; i < response.pods_size() && code == kOk; ++i) {
    if (i > 0) std::fputs("\n\n", stdout);
    code = DescribeOne(session, response.pods(i));
  }
  return code;
}

int RunDescribe(std::vector<std::string> names, const GlobalOptions& global) {
  const std::string& kind = names.front();
  if (kind == "pod" || kind == "pods" || kind == "po") names.erase(names.begin());
  return WithSession(global, [&](Session& session) {
    if (names.empty()) return DescribeAll(session);
    int code = kOk;
    bool first = true;
    for (const std::string& name : names) {
      core::Pod pod;
      const grpc::Status found = FindPod(session, name, pod);
      if (found.ok() && !first) std::fputs("\n\n", stdout);
      const int one = found.ok() ? DescribeOne(session, pod) : Report(found);
      if (one != kOk) code = one;
      first = false;
    }
    return code;
  });
}

}  // namespace

void AddDescribe(CLI::App& app, Invocation& invocation) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("describe", "Tell everything about pods, with events");
  command->fallthrough();
  command->add_option("pod", *words, "pod NAME… (a name or its unique beginning); no name: all")
      ->required();
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command->callback([words, &invocation] {
    invocation.action = [words, &invocation] { return RunDescribe(*words, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
