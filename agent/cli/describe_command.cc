// SPDX-License-Identifier: Apache-2.0
// describe: pods, services, the node, ConfigMaps or Secrets for a person to read.
#include <memory>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/describe.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// An object's text, or why there is none.
struct Described {
  grpc::Status status;
  std::string text;
};

v1::ListEventsRequest EventsOf(const char* kind, const auto& meta) {
  v1::ListEventsRequest request;
  request.set_namespace_(meta.namespace_());
  request.set_involved_kind(kind);
  request.set_involved_name(meta.name());
  return request;
}

Listed<v1::ListPullsResponse::Pull> PullsOf(Session& session, const core::Pod& pod) {
  v1::ListPullsRequest request;
  request.set_namespace_(pod.metadata().namespace_());
  request.set_pod_uid(pod.metadata().uid());
  v1::ListPullsResponse response;
  grpc::Status status =
      Ask(session, [&](Call& call) { return session.stub().ListPulls(&call, request, &response); });
  // An agent of an earlier version does not tell.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) status = grpc::Status::OK;
  return {status, {response.pulls().begin(), response.pulls().end()}};
}

Described Describe(Session& session, const core::Pod& pod) {
  v1::ListEventsRequest request = EventsOf("Pod", pod.metadata());
  request.set_involved_uid(pod.metadata().uid());
  const auto events = ListEvents(session, request);
  if (!events.status.ok()) return {events.status, {}};
  const auto pulls = PullsOf(session, pod);
  if (!pulls.status.ok()) return {pulls.status, {}};
  return {{}, DescribePod(pod, events.objects, pulls.objects, CurrentTime())};
}

Described Describe(Session& session, const core::Service& service) {
  const auto& meta = service.metadata();
  const auto slices = ListSlices(session, meta.namespace_(), meta.name());
  if (!slices.status.ok()) return {slices.status, {}};
  const auto events = ListEvents(session, EventsOf("Service", meta));
  if (!events.status.ok()) return {events.status, {}};
  return {{}, DescribeService(service, slices.objects, events.objects, CurrentTime())};
}

Described Describe(Session& session, const core::Node& node) {
  const auto pods = ListPods(session, "");
  if (!pods.status.ok()) return {pods.status, {}};
  const auto events = ListEvents(session, EventsOf("Node", node.metadata()));
  if (!events.status.ok()) return {events.status, {}};
  return {{}, DescribeNode(node, pods.objects, events.objects, CurrentTime())};
}

Described Describe(Session& session, const core::ConfigMap& map) {
  const auto events = ListEvents(session, EventsOf("ConfigMap", map.metadata()));
  if (!events.status.ok()) return {events.status, {}};
  return {{}, DescribeConfigMap(map, events.objects, CurrentTime())};
}

Described Describe(Session& session, const Object& object) {
  switch (object.resource) {
    case Resource::kPods:
      return Describe(session, object.As<core::Pod>());
    case Resource::kServices:
      return Describe(session, object.As<core::Service>());
    case Resource::kNodes:
      return Describe(session, object.As<core::Node>());
    case Resource::kConfigMaps:
      return Describe(session, object.As<core::ConfigMap>());
    case Resource::kSecrets:
      return {{}, DescribeSecret(object.As<SecretSummary>())};
    default:
      return {{grpc::StatusCode::INVALID_ARGUMENT, "it cannot be described"}, {}};
  }
}

struct DescribeOptions {
  std::vector<std::string> words;
  std::string selector;
};

// What is to be described, in order. `code` is kFailed where one that was named is not there.
Listed<Object> Gather(Session& session, const DescribeOptions& options, const ResourceWords& words,
                      int& code) {
  const GlobalOptions& global = session.options();
  Listed<Object> all;
  const auto add = [&all](const std::vector<Object>& more) {
    all.objects.insert(all.objects.end(), more.begin(), more.end());
  };
  if (words.objects.empty()) {
    for (const Resource resource : words.resources) {
      const auto listed = ListObjects(
          session, resource, {global.all_namespaces ? "" : global.name_space, options.selector});
      if (!listed.status.ok()) return listed;
      add(listed.objects);
    }
  }
  Listings listings(session);
  for (const ObjectName& object : words.objects) {
    const PodName name = ParsePodName(object.name, global.name_space);
    const Listed<Object>& listed = listings.Of(object.resource, name.name_space);
    if (!listed.status.ok()) return listed;
    const auto named = BestFits(listed.objects, name);
    if (named.empty()) code = ReportPick(ObjectNotFound(object.resource, name.name));
    add(named);
  }
  return all;
}

Result<void> CheckWords(const DescribeOptions& options, const GlobalOptions& global,
                        const ResourceWords& words) {
  for (const Resource resource : words.resources) {
    const bool can = resource == Resource::kPods || resource == Resource::kServices ||
                     resource == Resource::kNodes || resource == Resource::kConfigMaps ||
                     resource == Resource::kSecrets;
    if (can) continue;
    return InvalidArgument(
        StrCat(Plural(resource),
               " cannot be described; pods, services, the node, configmaps and secrets can"));
  }
  if (words.objects.empty()) return {};
  if (global.all_namespaces) {
    return InvalidArgument("a resource cannot be retrieved by name across all namespaces");
  }
  if (options.selector.empty()) return {};
  return InvalidArgument("name cannot be provided when a selector is specified");
}

int RunDescribe(const DescribeOptions& options, const GlobalOptions& global) {
  const auto words = ReadResourceWords(options.words, Resource::kPods);
  if (!words) return Report(words.error());
  if (const auto checked = CheckWords(options, global, *words); !checked) {
    return Report(checked.error());
  }
  return WithSession(global, [&](Session& session) {
    int code = kOk;
    const auto found = Gather(session, options, *words, code);
    if (!found.status.ok()) return Report(found.status);
    if (found.objects.empty() && code == kOk) {
      ReportNothingFound(global.all_namespaces ? "" : global.name_space);
    }
    bool first = true;
    for (const Object& object : found.objects) {
      const Described described = Describe(session, object);
      if (!described.status.ok()) return Report(described.status);
      Print(StrCat(std::exchange(first, false) ? "" : "\n\n", described.text));
    }
    return code;
  });
}

}  // namespace

void AddDescribe(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<DescribeOptions>();
  CLI::App* command = app.add_subcommand(
      "describe", "Tell everything about pods, services, the node, configmaps or secrets");
  command->fallthrough();
  command
      ->add_option(
          "resource", options->words,
          "pod, service, node, configmap or secret, and names or their beginnings; no name: all; "
          "a name alone is a pod's")
      ->required();
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command->add_option("-l,--selector", options->selector, "Those with these labels");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunDescribe(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
