// SPDX-License-Identifier: Apache-2.0
// describe: pods, services or the node for a person to read.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/describe.h"
#include "agent/cli/lists.h"
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

Described Describe(Session& session, const core::Pod& pod) {
  v1::ListEventsRequest request = EventsOf("Pod", pod.metadata());
  request.set_involved_uid(pod.metadata().uid());
  const auto events = ListEvents(session, request);
  if (!events.status.ok()) return {events.status, {}};
  return {{}, DescribePod(pod, events.objects, CurrentTime())};
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

template <class Object>
int Print(Session& session, const std::vector<const Object*>& objects, bool& first) {
  for (const Object* object : objects) {
    const Described described = Describe(session, *object);
    if (!described.status.ok()) return Report(described.status);
    if (!std::exchange(first, false)) std::fputs("\n\n", stdout);
    std::fwrite(described.text.data(), 1, described.text.size(), stdout);
  }
  return kOk;
}

template <class Object>
std::vector<const Object*> Pointers(const std::vector<Object>& objects) {
  std::vector<const Object*> pointers;
  for (const Object& object : objects) pointers.push_back(&object);
  return pointers;
}

// `list` gives the objects of a namespace, "" is all of them.
template <class List>
int DescribeObjects(Session& session, const char* resource, const std::vector<std::string>& names,
                    const List& list) {
  const GlobalOptions& options = session.options();
  bool first = true;
  if (names.empty()) {
    const std::string name_space = options.all_namespaces ? "" : options.name_space;
    const auto listed = list(name_space);
    if (!listed.status.ok()) return Report(listed.status);
    if (listed.objects.empty()) ReportNothingFound(name_space);
    return Print(session, Pointers(listed.objects), first);
  }
  if (options.all_namespaces) {
    return Report(InvalidArgument("a resource cannot be retrieved by name across all namespaces"));
  }
  int code = kOk;
  for (const std::string& text : names) {
    const PodName name = ParsePodName(text, options.name_space);
    const auto listed = list(name.name_space);
    if (!listed.status.ok()) return Report(listed.status);
    const auto named = BestFits(listed.objects, name);
    const int one = named.empty()
                        ? Report(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                              StrCat(resource, " \"", name.name, "\" not found")))
                        : Print(session, named, first);
    if (one != kOk) code = one;
  }
  return code;
}

int RunDescribe(const std::vector<std::string>& words, const GlobalOptions& global) {
  const auto read = ReadResourceWords(words);
  if (!read) return Report(read.error());
  return WithSession(global, [&](Session& session) {
    switch (read->resource.value_or(Resource::kPods)) {
      case Resource::kPods:
        return DescribeObjects(session, "pods", read->names, [&](const std::string& name_space) {
          return ListPods(session, name_space);
        });
      case Resource::kServices:
        return DescribeObjects(
            session, "services", read->names,
            [&](const std::string& name_space) { return ListServices(session, name_space); });
      case Resource::kNodes:
        return DescribeObjects(session, "nodes", read->names,
                               [&](const std::string&) { return ListNodes(session); });
      default:
        return Report(InvalidArgument(
            StrCat(words.front(), " cannot be described; pods, services and the node can")));
    }
  });
}

}  // namespace

void AddDescribe(CLI::App& app, Invocation& invocation) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("describe", "Tell everything about pods, services or the node");
  command->fallthrough();
  command
      ->add_option(
          "resource", *words,
          "pod, service or node, and names or their beginnings; no name: all; a name alone "
          "is a pod's")
      ->required();
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command->callback([words, &invocation] {
    invocation.action = [words, &invocation] { return RunDescribe(*words, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
