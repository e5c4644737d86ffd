// SPDX-License-Identifier: Apache-2.0
// wait: until pods have a condition, a field has a value, or they are gone.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/jsonpath.h"
#include "agent/cli/lists.h"
#include "agent/cli/pod_summary.h"
#include "agent/cli/pod_wait.h"
#include "agent/kube/codec.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct WaitOptions {
  std::vector<std::string> words;
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
            const std::string value = path.Apply(kube::ToTree(pod));
            return wanted ? value == *wanted : !value.empty();
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
    const core::Pod* pod = FindRunning(pods.objects, name);
    if (pod != nullptr) code = WaitUntilGone(session, {*pod}, timeout);
  } else {
    code = WaitUntil(session, name, timeout, goal.met);
  }
  if (code == kOk) std::printf("pod/%s condition met\n", name.name.c_str());
  std::fflush(stdout);
  return code;
}

int RunWait(const WaitOptions& options, const GlobalOptions& global) {
  const Goal goal = ParseGoal(options.condition);
  const auto timeout = DurationFlag("--timeout", options.timeout);
  std::vector<std::string> words = options.words;
  if (words.front() == "pod" || words.front() == "pods" || words.front() == "po") {
    words.erase(words.begin());
  }
  return WithSession(global, [&](Session& session) {
    std::vector<PodName> names;
    for (const std::string& word : words) names.push_back(ParsePodName(word, global.name_space));
    if (options.all) {
      for (const core::Pod& pod : ListAll(session)) {
        names.push_back({pod.metadata().namespace_(), pod.metadata().name()});
      }
    }
    int code = kOk;
    for (const PodName& name : names) {
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
