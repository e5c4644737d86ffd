// SPDX-License-Identifier: Apache-2.0
// apply and delete: edits of the agent's manifest directory.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/lists.h"
#include "agent/cli/manifests.h"
#include "agent/cli/pod_wait.h"
#include "agent/cli/table.h"
#include "agent/kube/manifest_reader.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
namespace discovery = ::k8s::io::api::discovery::v1;

struct ApplyOptions {
  std::vector<std::string> files;
  std::string dry_run = "none";
  bool recursive = false;
};

struct DeleteOptions {
  std::vector<std::string> words;
  std::vector<std::string> files;
  std::string timeout = "0s";
  int64_t grace_period = -1;
  bool recursive = false;
  bool force = false;
  bool now = false;
  bool all = false;
  bool ignore_not_found = false;
  bool wait = true;
};

const char* OutcomeWord(v1::EditedObject::Outcome outcome) {
  switch (outcome) {
    case v1::EditedObject::CREATED:
      return "created";
    case v1::EditedObject::CONFIGURED:
      return "configured";
    case v1::EditedObject::DELETED:
      return "deleted";
    default:
      return "unchanged";
  }
}

// What is wrong with a manifest is said line by line; everything else as any other failure.
int ReportApply(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) return Report(status);
  std::fprintf(stderr, "error: invalid manifest; nothing of it was applied\n%s\n",
               Visible(status.error_message()).c_str());
  return kFailed;
}

int ApplyOne(Session& session, const ManifestText& manifest, bool dry_run) {
  grpc::ClientContext context;
  v1::ApplyRequest request;
  request.set_manifest(manifest.text);
  request.set_origin(manifest.origin);
  request.set_dry_run(dry_run);
  v1::ApplyResponse response;
  const grpc::Status status = session.stub().Apply(&context, request, &response);
  if (!status.ok()) return ReportApply(status);
  for (const v1::EditedObject& object : response.objects()) {
    std::printf("%s/%s %s%s\n", LowerCase(object.kind()).c_str(), object.name().c_str(),
                OutcomeWord(object.outcome()), dry_run ? " (server dry run)" : "");
  }
  return kOk;
}

int RunApply(const ApplyOptions& options, const GlobalOptions& global) {
  const auto manifests = ReadManifests(options.files, options.recursive);
  if (!manifests) return Report(manifests.error());
  return WithSession(global, [&](Session& session) {
    int code = kOk;
    for (const ManifestText& manifest : *manifests) {
      if (ApplyOne(session, manifest, options.dry_run != "none") != kOk) code = kFailed;
    }
    return code;
  });
}

// One object to delete.
struct Target {
  std::string kind;
  PodName name;
};

template <class Object>
Target TargetOf(const std::string& kind, const Object& object,
                const std::string& default_namespace) {
  const auto& meta = object.metadata();
  return {kind, {meta.namespace_().empty() ? default_namespace : meta.namespace_(), meta.name()}};
}

Result<std::vector<Target>> TargetsOfManifests(const DeleteOptions& options,
                                               const std::string& default_namespace) {
  ASSIGN_OR_RETURN(const std::vector<ManifestText> manifests,
                   ReadManifests(options.files, options.recursive));
  std::vector<Target> targets;
  for (const ManifestText& text : manifests) {
    const kube::Manifest manifest = kube::ReadManifest(text.origin, text.text);
    if (!manifest.ok()) return InvalidArgument(kube::ToString(manifest.diagnostics));
    for (const kube::ManifestObject& object : manifest.objects) {
      const std::string& kind = object.type.kind;
      if (const auto* pod = object.As<core::Pod>()) {
        targets.push_back(TargetOf(kind, *pod, default_namespace));
      } else if (const auto* service = object.As<core::Service>()) {
        targets.push_back(TargetOf(kind, *service, default_namespace));
      } else if (const auto* slice = object.As<discovery::EndpointSlice>()) {
        targets.push_back(TargetOf(kind, *slice, default_namespace));
      }  // other kinds need no agent to forget them yet
    }
  }
  return targets;
}

// "Pod" for "pod", "pods" and "po"; "" for what is no kind.
std::string KindOfWord(const std::string& word) {
  static const std::map<std::string, std::string> kKinds = {{"pod", "Pod"},
                                                            {"pods", "Pod"},
                                                            {"po", "Pod"},
                                                            {"service", "Service"},
                                                            {"services", "Service"},
                                                            {"svc", "Service"},
                                                            {"endpointslice", "EndpointSlice"},
                                                            {"endpointslices", "EndpointSlice"}};
  const auto found = kKinds.find(word);
  return found == kKinds.end() ? "" : found->second;
}

// "pod a b", "service web", "svc/web", "pod/a", "a".
std::vector<Target> TargetsOfWords(std::vector<std::string> words,
                                   const std::string& default_namespace) {
  std::string kind = "Pod";
  if (!words.empty() && !KindOfWord(words.front()).empty()) {
    kind = KindOfWord(words.front());
    words.erase(words.begin());
  }
  std::vector<Target> targets;
  for (std::string word : words) {
    const size_t slash = word.find('/');
    const std::string prefix = slash == std::string::npos ? "" : KindOfWord(word.substr(0, slash));
    if (!prefix.empty()) word.erase(0, slash + 1);
    targets.push_back({prefix.empty() ? kind : prefix, ParsePodName(word, default_namespace)});
  }
  return targets;
}

std::optional<int64_t> GracePeriod(const DeleteOptions& options) {
  if (options.force) return 0;
  if (options.now) return 1;
  if (options.grace_period >= 0) return options.grace_period;
  return std::nullopt;
}

grpc::Status RequestDelete(Session& session, const DeleteOptions& options, const Target& target) {
  grpc::ClientContext context;
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
  if (!status.ok()) return Report(status);
  std::printf("%s \"%s\" %s from %s namespace\n", LowerCase(target.kind).c_str(),
              target.name.name.c_str(), options.force ? "force deleted" : "deleted",
              target.name.name_space.c_str());
  std::fflush(stdout);
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

int RunDelete(const DeleteOptions& options, const GlobalOptions& global) {
  if (options.words.empty() == options.files.empty()) {
    throw CLI::ValidationError("delete", "expected pod NAME…, service NAME… or -f FILE");
  }
  (void)DurationFlag("--timeout", options.timeout);
  auto targets = options.files.empty()
                     ? Result<std::vector<Target>>(TargetsOfWords(options.words, global.name_space))
                     : TargetsOfManifests(options, global.name_space);
  if (!targets) return Report(targets.error());
  return WithSession(global, [&](Session& session) {
    if (options.all) {
      for (const core::Pod& pod : ListAll(session)) {
        targets->push_back({"Pod", {pod.metadata().namespace_(), pod.metadata().name()}});
      }
    }
    if (targets->empty()) return Report(NotFound("nothing to delete: nothing was named"));
    return DeleteAll(session, options, *targets);
  });
}

void AddFileFlags(CLI::App& command, std::vector<std::string>& files, bool& recursive) {
  command.add_option("-f,--filename", files, "File, directory or - for stdin; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("-R,--recursive", recursive, "Sub-directories of a directory too");
}

}  // namespace

void AddApply(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ApplyOptions>();
  CLI::App* command =
      app.add_subcommand("apply", "Write the objects of a manifest into the manifest directory");
  command->fallthrough();
  AddFileFlags(*command, options->files, options->recursive);
  command->get_option("--filename")->required();
  command->add_option("--dry-run", options->dry_run, "Check and report only: none, server, client")
      ->expected(0, 1)
      ->default_str("server")
      ->check(CLI::IsMember({"none", "server", "client"}));
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunApply(*options, invocation.global); };
  });
}

void AddDelete(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<DeleteOptions>();
  CLI::App* command =
      app.add_subcommand("delete", "Remove objects from the manifest directory; pods end");
  command->fallthrough();
  command->add_option("pod", options->words, "pod NAME… or service NAME…");
  AddFileFlags(*command, options->files, options->recursive);
  command->add_option("--grace-period", options->grace_period,
                      "Seconds between SIGTERM and SIGKILL (default: the pod's own)");
  command->add_flag("--force", options->force, "Kill at once (grace period 0)");
  command->add_flag("--now", options->now, "Grace period 1");
  command->add_flag("--all", options->all, "All pods of the namespace (pod --all)");
  command->add_flag("--ignore-not-found", options->ignore_not_found, "Not found is no failure");
  command->add_flag("--wait,!--no-wait", options->wait, "Return when the pods are gone (default)");
  command->add_option("--timeout", options->timeout, "Stop waiting after so long (0s: never)");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunDelete(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
