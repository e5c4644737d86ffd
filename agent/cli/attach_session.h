// SPDX-License-Identifier: Apache-2.0
// A container's own streams, as attach and debug show them.
#pragma once

#include <string>

#include "agent/cli/session.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

struct AttachOptions {
  std::string container;
  bool stdin_open = false;
  bool tty = false;
  bool quiet = false;
};

// Until the container's streams end, or its user leaves. `pod` has the container.
int Attach(Session& session, const k8s::io::api::core::v1::Pod& pod, AttachOptions options);

}  // namespace holdfast::agent::cli
