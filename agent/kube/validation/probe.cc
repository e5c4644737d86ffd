// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/container.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

// All that may be named, sorted as Kubernetes shows them: the real-time ones by their distance from
// the first and the last, as text.
const std::set<std::string, std::less<>>& Signals() {
  static const auto& words = *[] {
    auto* all = new std::set<std::string, std::less<>>{
        "SIGABRT",   "SIGALRM",   "SIGBUS",  "SIGCHLD", "SIGCLD",   "SIGCONT",
        "SIGFPE",    "SIGHUP",    "SIGILL",  "SIGINT",  "SIGIO",    "SIGIOT",
        "SIGKILL",   "SIGPIPE",   "SIGPOLL", "SIGPROF", "SIGPWR",   "SIGQUIT",
        "SIGSEGV",   "SIGSTKFLT", "SIGSTOP", "SIGSYS",  "SIGTERM",  "SIGTRAP",
        "SIGTSTP",   "SIGTTIN",   "SIGTTOU", "SIGURG",  "SIGUSR1",  "SIGUSR2",
        "SIGVTALRM", "SIGWINCH",  "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX"};
    for (int i = 1; i <= 15; ++i) all->insert(StrCat("SIGRTMIN+", i));
    for (int i = 1; i <= 14; ++i) all->insert(StrCat("SIGRTMAX-", i));
    return all;
  }();
  return words;
}

void CheckHttpGet(const corev1::HTTPGetAction& action, const std::string& path, Report* report) {
  if (action.path().empty()) report->Required(Child(path, "path"));
  CheckPortReference(action.port(), Child(path, "port"), report);
  if (action.scheme() != "HTTP" && action.scheme() != "HTTPS") {
    report->NotSupported(Child(path, "scheme"), action.scheme(), {"HTTP", "HTTPS"});
  }
  for (const corev1::HTTPHeader& header : action.httpheaders()) {
    report->InvalidEach(Child(path, "httpHeaders"), header.name(),
                        CheckHttpHeaderName(header.name()));
  }
}

void CheckExec(const corev1::ExecAction& action, const std::string& path, Report* report) {
  if (action.command().empty()) report->Required(Child(path, "command"));
}

// Counts the handlers; only the first is looked into.
class HandlerCheck {
 public:
  HandlerCheck(const std::string& path, Report* report) : path_(path), report_(*report) {}
  ~HandlerCheck() {
    if (count_ == 0) report_.Required(path_, "must specify a handler type");
  }
  HandlerCheck(const HandlerCheck&) = delete;
  HandlerCheck& operator=(const HandlerCheck&) = delete;

  bool First(bool present, std::string_view field) {
    if (!present) return false;
    if (++count_ == 1) return true;
    report_.Forbidden(Child(path_, field), "may not specify more than 1 handler type");
    return false;
  }

 private:
  std::string path_;
  Report& report_;
  int count_ = 0;
};

// What probes and hooks share.
template <class Handler>
void CheckHandler(const Handler& handler, HandlerCheck& check, const std::string& path,
                  Report* report) {
  if (check.First(handler.has_exec(), "exec")) {
    CheckExec(handler.exec(), Child(path, "exec"), report);
  }
  if (check.First(handler.has_httpget(), "httpGet")) {
    CheckHttpGet(handler.httpget(), Child(path, "httpGet"), report);
  }
  if (check.First(handler.has_tcpsocket(), "tcpSocket")) {
    CheckPortReference(handler.tcpsocket().port(), Child(path, "tcpSocket.port"), report);
  }
}

void CheckHook(const corev1::LifecycleHandler& handler, const corev1::PodSpec& spec,
               const std::string& path, Report* report) {
  HandlerCheck check(path, report);
  CheckHandler(handler, check, path, report);
  if (!check.First(handler.has_sleep(), "sleep")) return;
  const int64_t seconds = handler.sleep().seconds();
  const int64_t grace = spec.terminationgraceperiodseconds();
  if (spec.has_terminationgraceperiodseconds() && (seconds < 0 || seconds > grace)) {
    report->InvalidNumber(
        Child(path, "sleep"), seconds,
        StrCat("must be non-negative and less than terminationGracePeriodSeconds (", grace, ")"));
  }
}

void CheckProbe(const corev1::Probe& probe, const std::string& path, Report* report) {
  {
    HandlerCheck check(path, report);
    CheckHandler(probe.handler(), check, path, report);
    if (check.First(probe.handler().has_grpc(), "grpc")) {
      const int32_t port = probe.handler().grpc().port();
      if (port < 1 || port > 65535) {
        report->InvalidNumber(Child(path, "grpc.port"), port, InclusiveRange(1, 65535));
      }
    }
  }
  report->NotNegative(Child(path, "initialDelaySeconds"), probe.initialdelayseconds());
  report->NotNegative(Child(path, "timeoutSeconds"), probe.timeoutseconds());
  report->NotNegative(Child(path, "periodSeconds"), probe.periodseconds());
  report->NotNegative(Child(path, "successThreshold"), probe.successthreshold());
  report->NotNegative(Child(path, "failureThreshold"), probe.failurethreshold());
  if (probe.has_terminationgraceperiodseconds() && probe.terminationgraceperiodseconds() <= 0) {
    report->InvalidNumber(Child(path, "terminationGracePeriodSeconds"),
                          probe.terminationgraceperiodseconds(), "must be greater than 0");
  }
}

void MustSucceedOnce(const corev1::Probe& probe, const std::string& path, Report* report) {
  if (probe.successthreshold() != 1) {
    report->InvalidNumber(Child(path, "successThreshold"), probe.successthreshold(), "must be 1");
  }
}

void CheckStopSignal(const std::string& name, const corev1::PodSpec& spec, const std::string& path,
                     Report* report) {
  if (!spec.has_os()) {
    report->Forbidden(path, "may not be set for containers with empty `spec.os.name`");
  } else if (spec.os().name() == "windows") {
    report->OneOfShown(path, name, {"SIGKILL", "SIGTERM"});
  } else if (spec.os().name() == "linux" && !Signals().contains(name)) {
    report->NotSupported(path, name, Words(Signals().begin(), Signals().end()));
  }
}

}  // namespace

void CheckProbes(const corev1::Container& container, const PodContext&, const std::string& path,
                 Report* report) {
  if (container.has_livenessprobe()) {
    const std::string here = Child(path, "livenessProbe");
    CheckProbe(container.livenessprobe(), here, report);
    MustSucceedOnce(container.livenessprobe(), here, report);
  }
  if (container.has_readinessprobe()) {
    const std::string here = Child(path, "readinessProbe");
    CheckProbe(container.readinessprobe(), here, report);
    if (container.readinessprobe().has_terminationgraceperiodseconds()) {
      report->InvalidNumber(Child(here, "terminationGracePeriodSeconds"),
                            container.readinessprobe().terminationgraceperiodseconds(),
                            "must not be set for readinessProbes");
    }
  }
  if (container.has_startupprobe()) {
    const std::string here = Child(path, "startupProbe");
    CheckProbe(container.startupprobe(), here, report);
    MustSucceedOnce(container.startupprobe(), here, report);
  }
}

void CheckLifecycle(const corev1::Lifecycle& lifecycle, const PodContext& pod,
                    const std::string& path, Report* report) {
  if (lifecycle.has_poststart()) {
    CheckHook(lifecycle.poststart(), pod.spec, Child(path, "postStart"), report);
  }
  if (lifecycle.has_prestop()) {
    CheckHook(lifecycle.prestop(), pod.spec, Child(path, "preStop"), report);
  }
  if (lifecycle.has_stopsignal()) {
    CheckStopSignal(lifecycle.stopsignal(), pod.spec, Child(path, "stopSignal"), report);
  }
}

}  // namespace holdfast::agent::kube
