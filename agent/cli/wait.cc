// SPDX-License-Identifier: Apache-2.0
// wait: until pods have a condition, a field has a value, or they are gone.
#include <memory>
#include <optional>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/jsonpath.h"
#include "agent/cli/lists.h"
#include "agent/cli/out.h"
#include "agent/cli/pod_summary.h"
#include "agent/cli/pod_wait.h"
#include "agent/cli/resource.h"
#include "agent/kube/codec.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct WaitOptions {
  std::vector<std::string> words;
  std::string selector;
  std::string condition;  // --for
  std::string timeout = "30s";
  bool all = false;
};

struct Goal {
  bool gone = false;
  PodPredicate met;
};

Goal ConditionGoal(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string type = text.substr(0, equals);
  const std::string status = equals == std::string::npos ? "True" : text.substr(equals + 1);
  return {.gone = false,
          .met = [type, status](const core::Pod& pod) { return HasCondition(pod, type, status); }};
}

// "{.status.phase}=Running", or "{.status.podIP}" alone: any value.
Goal JsonPathGoal(const std::string& text) {
  const size_t brace = text.rfind('}');
  const size_t equals = brace == std::string::npos ? text.find('=') : text.find('=', brace);
  auto path = JsonPath::Parse(text.substr(0, equals));
  if (!path) throw CLI::ValidationError("--for", path.error().message());
  std::optional<std::string> wanted;
  if (equals != std::string::npos) wanted = text.substr(equals + 1);
  return {.gone = false, .met = [path = std::move(*path), wanted](const core::Pod& pod) {
            const auto value = path.Apply(kube::ToTree(pod));
            if (!value) return false;  // it may come to have so many
            return wanted ? *value == *wanted : !value->empty();
          }};
}

Goal ParseGoal(const std::string& text) {
  if (text == "delete") return {.gone = true, .met = {}};
  if (text == "create") return {.gone = false, .met = [](const core::Pod&) { return true; }};
  if (text.starts_with("condition=")) return ConditionGoal(text.substr(10));
  if (text.starts_with("jsonpath=")) return JsonPathGoal(text.substr(9));
  throw CLI::ValidationError(
      "--for", "expected condition=NAME[=STATUS], jsonpath=PATH[=VALUE], create or delete");
}

int WaitOne(Session& session, const PodName& name, const Goal& goal,
            std::chrono::nanoseconds timeout) {
  int code = kOk;
  if (goal.gone) {
    const auto pods = ListPods(session, name.name_space);
    if (!pods.status.ok()) return Report(pods.status);
    const core::Pod* pod = FindRunning(pods.objects, name);
    if (pod != nullptr) code = WaitUntilGone(session, {*pod}, timeout);
  } else {
    code = WaitUntil(session, name, timeout, goal.met);
  }
  if (code == kOk) Print(StrCat("pod/", name.name, " condition met\n"));
  return code;
}

// The pods that are named; none: all of the namespace, or the selected ones.
Result<std::vector<PodName>> ReadNames(const WaitOptions& options, const GlobalOptions& global) {
  ASSIGN_OR_RETURN(const ResourceWords words, ReadResourceWords(options.words, Resource::kPods));
  for (const Resource resource : words.resources) {
    if (resource == Resource::kPods) continue;
    return InvalidArgument(StrCat(Plural(resource), " cannot be waited for; pods can"));
  }
  const bool selects = options.all || !options.selector.empty();
  if (selects && !words.objects.empty()) {
    return InvalidArgument("name cannot be provided when a selector is specified");
  }
  if (!selects && words.objects.empty()) {
    return InvalidArgument("resource(s) were provided, but no name was specified");
  }
  std::vector<PodName> names;
  for (const ObjectName& object : words.objects) {
    names.push_back(ParsePodName(object.name, global.name_space));
  }
  return names;
}

grpc::Status AddSelected(Session& session, const WaitOptions& options,
                         std::vector<PodName>& names) {
  const GlobalOptions& global = session.options();
  const auto pods =
      ListPods(session, global.all_namespaces ? "" : global.name_space, options.selector);
  for (const core::Pod& pod : pods.objects) {
    names.push_back({pod.metadata().namespace_(), pod.metadata().name()});
  }
  return pods.status;
}

int RunWait(const WaitOptions& options, const GlobalOptions& global) {
  const Goal goal = ParseGoal(options.condition);
  const auto timeout = DurationFlag("--timeout", options.timeout);
  auto names = ReadNames(options, global);
  if (!names) return Report(names.error());
  return WithSession(global, [&](Session& session) {
    if (names->empty()) {
      const grpc::Status listed = AddSelected(session, options, *names);
      if (!listed.ok()) return Report(listed);
      // Nobody there is what a wait for the end waits for.
      if (names->empty() && !goal.gone) return Report(NotFound("no matching resources found"));
    }
    int code = kOk;
    for (const PodName& name : *names) {
      if (WaitOne(session, name, goal, timeout) != kOk) code = kFailed;
    }
    return code;
  });
}

}  // namespace

void AddWait(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<WaitOptions>();
  CLI::App* command = app.add_subcommand("wait", "Wait until pods are ready, or gone");
  command->fallthrough();
  command->add_option("pod", options->words, "pod NAME…; a pod need not be there yet")->required();
  command->add_option("-l,--selector", options->selector, "The pods with these labels");
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces,
                    "With --all or -l: of all namespaces");
  command
      ->add_option(
          "--for", options->condition,
          "condition=Ready, condition=NAME=STATUS, jsonpath={PATH}=VALUE, create or delete")
      ->required();
  command->add_option("--timeout", options->timeout, "Per pod; 0s: no limit (default 30s)");
  command->add_flag("--all", options->all, "All pods of the namespace (pod --all)");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunWait(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
