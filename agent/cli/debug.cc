// SPDX-License-Identifier: Apache-2.0
// debug: an ephemeral container in a running pod, to look at its others from within.
#include <cstdio>
#include <memory>
#include <random>

#include "agent/cli/attach_session.h"
#include "agent/cli/commands.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/pod_target.h"
#include "agent/cli/pod_wait.h"
#include "agent/cli/table.h"
#include "agent/kube/containers_of.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct DebugOptions {
  std::string pod;
  std::string image;
  std::string container;
  std::string target;
  std::string pull_policy;
  std::vector<std::string> env;  // NAME=VALUE
  std::vector<std::string> command;
  bool stdin_open = false;
  bool tty = false;
  bool quiet = false;
  bool arguments_only = false;
  bool attach = false;
};

// "debugger-x7k2p": five of the letters that Kubernetes makes names of.
std::string RandomName() {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string name = "debugger-";
  for (int i = 0; i < 5; ++i) name += kLetters[letter(random)];
  return name;
}

core::EphemeralContainer ContainerFor(const DebugOptions& options) {
  core::EphemeralContainer added;
  added.set_targetcontainername(options.target);
  auto& container = *added.mutable_ephemeralcontainercommon();
  container.set_name(options.container);
  container.set_image(options.image);
  if (!options.pull_policy.empty()) container.set_imagepullpolicy(options.pull_policy);
  auto* words = options.arguments_only ? container.mutable_args() : container.mutable_command();
  words->Assign(options.command.begin(), options.command.end());
  for (const std::string& variable : options.env) {
    const size_t equals = variable.find('=');
    auto* out = container.add_env();
    out->set_name(variable.substr(0, equals));
    out->set_value(variable.substr(equals + 1));
  }
  container.set_stdin(options.stdin_open);
  container.set_tty(options.tty);
  container.mutable_securitycontext()->mutable_capabilities()->add_add("SYS_PTRACE");
  return added;
}

// Until it has begun, or has ended already.
int AwaitBegin(Session& session, const core::Pod& pod, const std::string& container) {
  std::string told;
  const PodName name{pod.metadata().namespace_(), pod.metadata().name()};
  return WaitUntil(session, name, std::chrono::nanoseconds(0), [&](const core::Pod& now) {
    const core::ContainerStatus* status = kube::StatusOf(now, container);
    if (status == nullptr) return false;
    const auto& state = status->state();
    if (state.has_running() || state.has_terminated()) return true;
    const std::string why = state.waiting().message();
    if (!why.empty() && why != told) {
      std::fprintf(stderr, "Warning: container %s: %s\n", container.c_str(), Visible(why).c_str());
    }
    told = why;
    return false;
  });
}

int RunDebug(DebugOptions options, const Invocation& invocation) {
  options.command = invocation.after_dashes;
  if (options.tty && !options.stdin_open) {
    return Report(InvalidArgument("-i/--stdin is required for containers with -t/--tty=true"));
  }
  for (const std::string& variable : options.env) {
    if (variable.find('=') == 0 || variable.find('=') == std::string::npos) {
      throw CLI::ValidationError("--env", StrCat(variable, ": expected NAME=VALUE"));
    }
  }
  if (const auto kind = KindOfTarget(options.pod)) {
    return Report(InvalidArgument(StrCat("\"", *kind, "\" not supported by debug")));
  }
  return WithSession(invocation.global, [&](Session& session) {
    const auto pod = FindPod(session, options.pod);
    if (!pod) return kFailed;
    if (options.container.empty()) {
      options.container = RandomName();
      if (!options.quiet) {
        Print(StrCat("Defaulting debug container name to ", options.container, ".\n"));
      }
    }
    v1::AddEphemeralContainerRequest request;
    request.set_namespace_(pod->metadata().namespace_());
    request.set_pod(pod->metadata().name());
    *request.mutable_container() = ContainerFor(options);
    core::Pod wanted;
    Call call(session);
    const auto status = session.stub().AddEphemeralContainer(&call, request, &wanted);
    if (!status.ok()) return ReportChange(status);
    if (!options.attach) return kOk;
    if (const int code = AwaitBegin(session, wanted, options.container); code != kOk) return code;
    return Attach(session, wanted,
                  {.container = options.container,
                   .stdin_open = options.stdin_open,
                   .tty = options.tty,
                   .quiet = options.quiet});
  });
}

}  // namespace

void AddDebug(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<DebugOptions>();
  CLI::App* command = app.add_subcommand("debug", "Put a container for debugging into a pod");
  command->fallthrough();
  command->footer(
      "\ndebug POD --image=IMAGE [-it] [--target CONTAINER] [-c NAME] [-- PROGRAM [ARGUMENT…]]\n"
      "Of pods of manifests. The container runs once and is there for as long as the pod is.");
  command->add_option("pod", options->pod, "Pod: a name, pod/NAME, namespace/NAME or a beginning")
      ->required();
  command->add_option("--image", options->image, "Image of the container")->required();
  command->add_option("-c,--container", options->container, "Its name (default: debugger-…)");
  command->add_option("--target", options->target, "Container of the pod whose processes it sees");
  command->add_option("--image-pull-policy", options->pull_policy, "Always, IfNotPresent or Never")
      ->check(CLI::IsMember({"Always", "IfNotPresent", "Never"}));
  command->add_option("--env", options->env, "NAME=VALUE, several times")->expected(1)->take_all();
  command->add_flag("--arguments-only", options->arguments_only,
                    "What follows -- are arguments of the image's program");
  const CLI::Option* attach =
      command->add_flag("--attach", options->attach, "Show its streams (default: with -i)");
  command->add_flag("-i,--stdin", options->stdin_open, "Keep stdin open, and pass it on");
  command->add_flag("-t,--tty", options->tty, "With a terminal");
  command->add_flag("-q,--quiet", options->quiet, "Only what the container prints");
  command->callback([options, attach, &invocation] {
    if (attach->count() == 0) options->attach = options->stdin_open;
    invocation.action = [options, &invocation] { return RunDebug(*options, invocation); };
  });
}

}  // namespace holdfast::agent::cli
