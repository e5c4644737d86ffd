// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/network_upkeep.h"

#include <chrono>
#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// The kernel takes a namespace's interfaces away in the background.
constexpr std::chrono::seconds kReleaseDelay{1};

}  // namespace

void NetworkUpkeep::Ensure() {
  turns_.PostNode([this] { Tell(services_.network.Ensure()); });
}

void NetworkUpkeep::NotePodGone() {
  if (release_due_.exchange(true)) return;
  turns_.RunAt(services_.clock.Boot() + kReleaseDelay, [this] { Release(); });
}

void NetworkUpkeep::Release() {
  release_due_ = false;  // who goes from now on has another one
  turns_.PostNode([this] { Tell(services_.network.Release()); });
}

void NetworkUpkeep::Tell(const Result<void>& done) {
  if (!done) {
    services_.log(StrCat("pod network: ", done.error().message(), ", trying again in a minute"));
  }
  for (const std::string& warning : services_.network.TakeWarnings()) services_.log(warning);
}

}  // namespace holdfast::agent
