// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/spec_containers.h"

#include <charconv>
#include <cstring>

#include "agent/kube/pod_resources.h"
#include "agent/kube/restart_policy.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// Decimal digits only; -1 otherwise.
int ParseNumber(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

int RealTimeSignal(std::string_view name) {
  const auto offset = [](std::string_view rest) {
    return rest.empty() ? 0 : ParseNumber(rest.substr(1));
  };
  // Numbers as the kernel has them: 34 to 64; glibc's SIGRTMIN is the same 34.
  if (name.starts_with("RTMIN")) {
    const int n = offset(name.substr(5));
    return n >= 0 && 34 + n <= 64 ? 34 + n : 0;
  }
  const int n = offset(name.substr(5));
  return n >= 0 && 64 - n >= 34 ? 64 - n : 0;
}

// The same fields under the same numbers.
std::shared_ptr<const corev1::Container> AsContainer(
    const corev1::EphemeralContainerCommon& common) {
  auto container = std::make_shared<corev1::Container>();
  (void)container->ParseFromString(common.SerializeAsString());  // of our own bytes
  return container;
}

}  // namespace

std::vector<SpecContainer> ContainersOf(const corev1::Pod& pod) {
  std::vector<SpecContainer> list;
  for (const corev1::Container& c : pod.spec().initcontainers()) {
    list.push_back({&c, kube::IsSidecar(c) ? Role::kSidecar : Role::kInit});
  }
  for (const corev1::Container& c : pod.spec().containers()) list.push_back({&c, Role::kMain});
  for (const corev1::EphemeralContainer& c : pod.spec().ephemeralcontainers()) {
    auto own = AsContainer(c.ephemeralcontainercommon());
    const corev1::Container* const spec = own.get();
    list.push_back({spec, Role::kEphemeral, std::move(own), c.targetcontainername()});
  }
  return list;
}

SpecContainer ContainerNamed(const corev1::Pod& pod, const std::string& name) {
  for (SpecContainer& c : ContainersOf(pod)) {
    if (c.name() == name) return std::move(c);
  }
  return {};
}

bool RestartsAllAfter(const SpecContainer& container, int32_t exit_code) {
  return kube::RestartsAllAfter(*container.spec, exit_code);
}

bool CouldRestartAll(const corev1::Pod& pod) { return kube::CouldRestartAll(pod); }

bool RestartsAfter(const corev1::Pod& pod, const SpecContainer& container, int32_t exit_code) {
  return kube::RestartsAfter(pod, *container.spec, container.in_init_list(), exit_code);
}

std::chrono::seconds GracePeriod(const corev1::Pod& pod) {
  const auto& spec = pod.spec();
  return std::chrono::seconds(
      spec.has_terminationgraceperiodseconds() ? spec.terminationgraceperiodseconds() : 30);
}

std::string FullName(const corev1::Pod& pod) {
  return StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
}

std::string PodLabel(const corev1::Pod& pod) {
  const auto& meta = pod.metadata();
  return StrCat(meta.name(), "_", meta.namespace_(), "(", meta.uid(), ")");
}

int SignalNumber(const std::string& name) {
  if (const int number = ParseNumber(name); number >= 1 && number <= 64) return number;
  std::string_view bare = name;
  if (bare.starts_with("SIG")) bare.remove_prefix(3);
  if (bare.starts_with("RTMIN") || bare.starts_with("RTMAX")) return RealTimeSignal(bare);
  for (int signal = 1; signal < 32; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && bare == known) return signal;
  }
  return 0;
}

}  // namespace holdfast::agent
