// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/container.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

const Words& Signals() {
  static const Words& words = *new Words{
      "SIGABRT", "SIGALRM", "SIGBUS",   "SIGCHLD",   "SIGCLD",  "SIGCONT", "SIGFPE",    "SIGHUP",
      "SIGILL",  "SIGINT",  "SIGIO",    "SIGIOT",    "SIGKILL", "SIGPIPE", "SIGPOLL",   "SIGPROF",
      "SIGPWR",  "SIGQUIT", "SIGSEGV",  "SIGSTKFLT", "SIGSTOP", "SIGSYS",  "SIGTERM",   "SIGTRAP",
      "SIGTSTP", "SIGTTIN", "SIGTTOU",  "SIGURG",    "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH",
      "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX"};
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

bool IsSignal(std::string_view name) {
  if (std::find(Signals().begin(), Signals().end(), name) != Signals().end()) return true;
  const bool low = name.starts_with("SIGRTMIN+");
  if (!low && !name.starts_with("SIGRTMAX-")) return false;
  name.remove_prefix(9);
  const int number = name.size() == 1                     ? name[0] - '0'
                     : name.size() == 2 && name[0] == '1' ? 10 + name[1] - '0'
                                                          : 0;
  return number >= 1 && number <= (low ? 15 : 14);
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
  if (!lifecycle.has_stopsignal()) return;
  if (!pod.spec.has_os()) {
    report->Forbidden(Child(path, "stopSignal"),
                      "may not be set for containers with empty `spec.os.name`");
  } else if (!IsSignal(lifecycle.stopsignal())) {
    report->NotSupported(Child(path, "stopSignal"), lifecycle.stopsignal(), Signals());
  }
}

}  // namespace holdfast::agent::kube
