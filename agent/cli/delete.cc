// SPDX-License-Identifier: Apache-2.0
// delete: objects out of the agent's manifest directory; pods end.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/manifests.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/pod_wait.h"
#include "agent/cli/table.h"
#include "agent/kube/manifest_reader.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
namespace discovery = ::k8s::io::api::discovery::v1;

struct DeleteOptions {
  std::vector<std::string> words;
  std::vector<std::string> files;
  std::string selector;
  std::string timeout = "0s";
  int64_t grace_period = -1;
  bool recursive = false;
  bool force = false;
  bool now = false;
  bool all = false;
  bool ignore_not_found = false;
  bool wait = true;
};

// One object to delete.
struct Target {
  std::string kind;
  PodName name;
};

// Where `apply` puts the object: its own namespace, else the one that -n names, else "default".
template <class Type>
Result<Target> TargetOf(const kube::ManifestObject& object, const Type& message,
                        const GlobalOptions& global) {
  const auto& meta = message.metadata();
  const std::string& own = meta.namespace_();
  if (global.namespace_given && !own.empty() && own != global.name_space) {
    return InvalidArgument(StrCat(
        "the namespace from the provided object \"", own, "\" does not match the namespace \"",
        global.name_space, "\". You must pass '--namespace=", own, "' to perform this operation."));
  }
  return Target{object.type.kind, {own.empty() ? global.name_space : own, meta.name()}};
}

Result<std::vector<Target>> TargetsOfManifests(const DeleteOptions& options,
                                               const GlobalOptions& global) {
  ASSIGN_OR_RETURN(const std::vector<ManifestText> manifests,
                   ReadManifests(options.files, options.recursive));
  std::vector<Target> targets;
  for (const ManifestText& text : manifests) {
    const kube::Manifest manifest =
        kube::ReadManifest(text.origin, text.text, kube::kManifestLimits);
    if (!manifest.ok()) return InvalidArgument(kube::ToString(manifest.diagnostics));
    for (const kube::ManifestObject& object : manifest.objects) {
      if (const auto* pod = object.As<core::Pod>()) {
        ASSIGN_OR_RETURN(targets.emplace_back(), TargetOf(object, *pod, global));
      } else if (const auto* service = object.As<core::Service>()) {
        ASSIGN_OR_RETURN(targets.emplace_back(), TargetOf(object, *service, global));
      } else if (const auto* slice = object.As<discovery::EndpointSlice>()) {
        ASSIGN_OR_RETURN(targets.emplace_back(), TargetOf(object, *slice, global));
      } else if (const auto* map = object.As<core::ConfigMap>()) {
        ASSIGN_OR_RETURN(targets.emplace_back(), TargetOf(object, *map, global));
      } else if (const auto* secret = object.As<core::Secret>()) {
        ASSIGN_OR_RETURN(targets.emplace_back(), TargetOf(object, *secret, global));
      }  // other kinds need no agent to forget them yet
    }
  }
  return targets;
}

// What the words name, before anything is asked.
Result<ResourceWords> ReadTargets(const DeleteOptions& options) {
  const bool selects = options.all || !options.selector.empty();
  if (options.words.empty() && selects) {
    return InvalidArgument("at least one resource must be specified to use a selector");
  }
  if (options.all && !options.selector.empty()) {
    return InvalidArgument("--all and a selector (-l) cannot be specified together");
  }
  ASSIGN_OR_RETURN(ResourceWords words, ReadResourceWords(options.words));
  for (const Resource resource : words.resources) {
    const std::string_view kind = KindOf(resource);
    const bool from_manifest = kind == "Pod" || kind == "Service" || kind == "EndpointSlice" ||
                               kind == "ConfigMap" || kind == "Secret";
    if (!from_manifest || resource == Resource::kEndpoints) {
      return InvalidArgument(StrCat(Plural(resource),
                                    " cannot be deleted; pods, services, endpointslices, "
                                    "configmaps and secrets can"));
    }
  }
  if (selects && !words.objects.empty()) {
    return InvalidArgument("name cannot be provided when a selector is specified");
  }
  if (!selects && words.objects.empty()) {
    return InvalidArgument("resource(s) were provided, but no name was specified");
  }
  return words;
}

Result<void> CheckGrace(const DeleteOptions& options) {
  const bool given = options.grace_period >= 0;
  if (options.now && given) {
    return InvalidArgument("--now and --grace-period cannot be specified together");
  }
  if (options.force && options.grace_period > 0) {
    return InvalidArgument(
        "--force and --grace-period greater than 0 cannot be specified together");
  }
  return {};
}

std::optional<int64_t> GracePeriod(const DeleteOptions& options) {
  if (options.force) return 0;
  if (options.now) return 1;
  // As kubectl: to kill at once is a matter of --force.
  if (options.grace_period >= 0) return std::max<int64_t>(options.grace_period, 1);
  return std::nullopt;
}

grpc::Status RequestDelete(Session& session, const DeleteOptions& options, const Target& target) {
  Call context(session);
  v1::DeleteRequest request;
  request.set_namespace_(target.name.name_space);
  request.set_name(target.name.name);
  request.set_kind(target.kind);
  const auto grace = GracePeriod(options);
  if (grace && target.kind == "Pod") request.set_grace_period_seconds(*grace);
  v1::DeleteResponse response;
  return session.stub().Delete(&context, request, &response);
}

int ReportDelete(const grpc::Status& status, const DeleteOptions& options, const Target& target) {
  if (status.error_code() == grpc::StatusCode::NOT_FOUND && options.ignore_not_found) return kOk;
  if (!status.ok()) return ReportChange(status);
  Print(StrCat(ToLower(target.kind), " \"", target.name.name, "\" ",
               options.force ? "force deleted" : "deleted", " from ", target.name.name_space,
               " namespace\n"));
  return kOk;
}

// Several at a time, since each lasts until the agent has seen that its file is gone; fewer than
// the agent has workers for such calls. Told in the order of the targets; the codes are in it too.
std::vector<int> RequestDeletes(Session& session, const DeleteOptions& options,
                                const std::vector<Target>& targets) {
  constexpr size_t kAtOnce = 6;
  std::deque<std::future<grpc::Status>> under_way;  // those after the codes that are known
  std::vector<int> codes;
  const auto finish_first = [&] {
    codes.push_back(ReportDelete(under_way.front().get(), options, targets[codes.size()]));
    under_way.pop_front();
  };
  for (const Target& target : targets) {
    if (under_way.size() == kAtOnce) finish_first();
    // Where no thread is to be had, one after the other.
    under_way.push_back(std::async(std::launch::async | std::launch::deferred,
                                   [&] { return RequestDelete(session, options, target); }));
  }
  while (!under_way.empty()) finish_first();
  return codes;
}

// The pods of the targets' namespaces as they are now.
std::map<std::string, std::vector<core::Pod>> PodsOf(Session& session,
                                                     const std::vector<Target>& targets) {
  std::map<std::string, std::vector<core::Pod>> pods;
  for (const Target& target : targets) {
    const std::string& name_space = target.name.name_space;
    if (target.kind != "Pod" || pods.contains(name_space)) continue;
    pods[name_space] = ListPods(session, name_space).objects;
  }
  return pods;
}

// 1. who runs now: a pod of the same name that is made meanwhile is another one; 2. all deletions
// are asked for; 3. all that end then are waited for together.
int DeleteAll(Session& session, const DeleteOptions& options, const std::vector<Target>& targets) {
  const auto running = PodsOf(session, targets);
  const std::vector<int> codes = RequestDeletes(session, options, targets);
  std::vector<core::Pod> ending;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    if (codes[i] != kOk || target.kind != "Pod") continue;
    const core::Pod* pod = FindRunning(running.at(target.name.name_space), target.name);
    if (pod != nullptr) ending.push_back(*pod);
  }
  const int waited =
      options.wait ? WaitUntilGone(session, ending, DurationFlag("--timeout", options.timeout))
                   : kOk;
  const bool all_asked = std::all_of(codes.begin(), codes.end(), [](int c) { return c == kOk; });
  return all_asked ? waited : kFailed;
}

// What to delete: objects by name, or all (with a selector: some) objects of these kinds.
struct Plan {
  std::vector<Target> targets;
  std::vector<Resource> whole;
};

Result<Plan> MakePlan(const DeleteOptions& options, const GlobalOptions& global) {
  RETURN_IF_ERROR(CheckGrace(options));
  Plan plan;
  if (!options.files.empty()) {
    if (options.all || !options.selector.empty()) {
      return InvalidArgument("--all and -l select among a type, not among files");
    }
    ASSIGN_OR_RETURN(plan.targets, TargetsOfManifests(options, global));
    if (plan.targets.empty()) return NotFound("nothing to delete: no object is in these files");
    return plan;
  }
  ASSIGN_OR_RETURN(const ResourceWords words, ReadTargets(options));
  if (words.objects.empty()) plan.whole = words.resources;
  if (!words.objects.empty() && global.all_namespaces) {
    return InvalidArgument("a resource cannot be retrieved by name across all namespaces");
  }
  for (const ObjectName& object : words.objects) {
    plan.targets.push_back(
        {std::string(KindOf(object.resource)), ParsePodName(object.name, global.name_space)});
  }
  return plan;
}

grpc::Status AddWhole(Session& session, const DeleteOptions& options, Plan& plan) {
  const GlobalOptions& global = session.options();
  for (const Resource resource : plan.whole) {
    const auto listed = ListObjects(
        session, resource, {global.all_namespaces ? "" : global.name_space, options.selector});
    if (!listed.status.ok()) return listed.status;
    for (const Object& object : listed.objects) {
      plan.targets.push_back(
          {std::string(KindOf(resource)), {object.meta->namespace_(), object.meta->name()}});
    }
  }
  return grpc::Status::OK;
}

int RunDelete(const DeleteOptions& options, const GlobalOptions& global) {
  if (options.words.empty() == options.files.empty() && !options.all && options.selector.empty()) {
    throw CLI::ValidationError("delete", "expected TYPE NAME…, TYPE/NAME…, TYPE --all or -f FILE");
  }
  (void)DurationFlag("--timeout", options.timeout);
  auto plan = MakePlan(options, global);
  if (!plan) return Report(plan.error());
  return WithSession(global, [&](Session& session) {
    const grpc::Status listed = AddWhole(session, options, *plan);
    if (!listed.ok()) return Report(listed);
    if (plan->targets.empty()) {
      std::fputs("No resources found\n", stderr);
      return kOk;
    }
    return DeleteAll(session, options, plan->targets);
  });
}

}  // namespace

void AddDelete(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<DeleteOptions>();
  CLI::App* command =
      app.add_subcommand("delete", "Remove objects from the manifest directory; pods end");
  command->fallthrough();
  command->add_option(
      "resource", options->words,
      "pod NAME…, service NAME…, endpointslice NAME…, configmap NAME…, secret NAME… or TYPE/NAME…");
  AddFileFlags(*command, options->files, options->recursive);
  command->add_option("-l,--selector", options->selector, "Those of the type with these labels");
  command->add_flag("--all", options->all, "All of the type in the namespace: pods --all");
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces,
                    "With --all or -l: of all namespaces");
  command->add_option("--grace-period", options->grace_period,
                      "Seconds between SIGTERM and SIGKILL (default: the pod's own)");
  command->add_flag("--force", options->force, "Kill at once (grace period 0)");
  command->add_flag("--now", options->now, "Grace period 1");
  command->add_flag("--ignore-not-found", options->ignore_not_found, "Not found is no failure");
  command->add_flag("--wait,!--no-wait", options->wait, "Return when the pods are gone (default)");
  command->add_option("--timeout", options->timeout, "Stop waiting after so long (0s: never)");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunDelete(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
