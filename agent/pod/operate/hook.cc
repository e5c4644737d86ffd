// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/hook.h"

#include <strings.h>

#include <algorithm>
#include <utility>

#include "agent/kube/containers_of.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/probe/resolve.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

// On the runner's thread. Kept alive by the check that is under way and by who may give it up.
class Hook : public std::enable_shared_from_this<Hook> {
 public:
  Hook(CheckRunner& runner, HookInput input, PodOperations::Ended ended)
      : runner_(runner), input_(std::move(input)), ended_(std::move(ended)) {}

  void Begin() {
    if (!ended_) return;
    if (input_.action.kind == Action::Kind::kPostStart) {
      HOLDFAST_PAUSE_POINT("agent.pod.post_start_begins");
    } else {
      HOLDFAST_PAUSE_POINT("agent.pod.pre_stop_begins");
    }
    const corev1::Container* container = kube::FindContainer(*input_.pod, input_.action.container);
    if (container == nullptr) return Fail("the container is in the pod no more");
    const auto& lifecycle = container->lifecycle();
    handler_ = input_.action.kind == Action::Kind::kPostStart ? lifecycle.poststart()
                                                              : lifecycle.prestop();
    auto check = ResolveHook(handler_, *container, input_.action.id, input_.pod_ip);
    if (!check) return Fail(StrCat("Cannot run handler: ", check.error().message()));
    if (auto* sleep = std::get_if<SleepCheck>(&*check)) {
      sleep->time = std::max(sleep->time - input_.slept, std::chrono::nanoseconds(0));
    }
    Run(*check);
  }

  void GiveUp() {
    if (ended_ && handler_.has_sleep() && input_.sleep_given_up) input_.sleep_given_up();
    ended_ = nullptr;
    running_.reset();
  }

 private:
  void Run(const Check& check) {
    running_ = runner_.Begin(check, std::nullopt,
                             [self = shared_from_this(), check](const CheckOutcome& outcome) {
                               self->OnOutcome(check, outcome);
                             });
  }

  // HTTPS that is answered in plain text is tried once more without.
  void OnOutcome(const Check& check, const CheckOutcome& outcome) {
    if (outcome.plain_peer) {
      HttpCheck plain = std::get<HttpCheck>(check);
      plain.tls = false;
      std::erase_if(plain.headers, [](const auto& header) {
        return ::strcasecmp(header.first.c_str(), "authorization") == 0;
      });
      fell_back_ = true;
      return Run(plain);
    }
    // As when the agent dies in a hook.
    if (outcome.end_lost) return Run(check);
    if (outcome.how == CheckOutcome::How::kFailure || outcome.how == CheckOutcome::How::kError) {
      return Fail(HookFailure(handler_, *input_.pod, input_.action.container, outcome));
    }
    OperationEnd end;
    if (fell_back_) {
      const HttpCheck& http = std::get<HttpCheck>(check);
      end.events.push_back(
          {true, kHookFellBack,
           StrCat("request to HTTPS lifecycle hook ", JoinHostPort(http.host, http.port),
                  " got HTTP response, retry with HTTP succeeded"),
           input_.action.container, false});
    }
    End(std::move(end));
  }

  void Fail(std::string text) {
    OperationEnd end;
    end.how = OperationEnd::How::kFailed;
    end.error = std::move(text);
    End(std::move(end));
  }

  void End(OperationEnd end) {
    if (auto ended = std::exchange(ended_, nullptr)) ended(std::move(end));
  }

  CheckRunner& runner_;
  const HookInput input_;
  PodOperations::Ended ended_;
  corev1::LifecycleHandler handler_;
  std::unique_ptr<RunningCheck> running_;
  bool fell_back_ = false;
};

}  // namespace

bool IsHook(Action::Kind kind) {
  return kind == Action::Kind::kPostStart || kind == Action::Kind::kPreStop;
}

PodOperations::GiveUp BeginHook(CheckRunner& runner, const HookInput& input,
                                PodOperations::Ended ended) {
  const auto hook = std::make_shared<Hook>(runner, input, std::move(ended));
  runner.Post([hook] { hook->Begin(); });
  return [&runner, hook] { runner.Post([hook] { hook->GiveUp(); }); };
}

std::string HookFailure(const corev1::LifecycleHandler& handler, const corev1::Pod& pod,
                        const std::string& container, const CheckOutcome& outcome) {
  const std::string where =
      StrCat(" for Container \"", container, "\" in Pod \"", PodLabel(pod), "\" failed - error: ");
  if (handler.has_httpget()) {
    return StrCat("HTTP lifecycle hook (", handler.httpget().path(), ")", where, outcome.text);
  }
  if (!handler.has_exec()) {
    return StrCat("Sleep lifecycle hook (", handler.sleep().seconds(), ")", where, outcome.text);
  }
  const std::string command = Join(handler.exec().command(), " ");
  const bool ran = outcome.how == CheckOutcome::How::kFailure;
  return StrCat(
      "Exec lifecycle hook ([", command, "])", where,
      ran ? StrCat("command '", command, "' exited with ", outcome.exit_code, ": ", outcome.text)
          : outcome.text,
      ", message: \"", ran ? outcome.text : "", "\"");
}

}  // namespace holdfast::agent
