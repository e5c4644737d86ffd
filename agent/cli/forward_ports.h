// SPDX-License-Identifier: Apache-2.0
// Which ports port-forward forwards: from the words of the command line and what they are about. Pure.
// Errors are in kubectl's words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::cli {

struct ForwardedPort {
  uint16_t local = 0;   // 0: any
  uint16_t remote = 0;  // of the pod
  bool operator==(const ForwardedPort&) const = default;
};

// "8080:80", "80", ":80", "8080:http"; names are those of the pod's ports.
Result<std::vector<ForwardedPort>> PortsOfPod(const std::vector<std::string>& words,
                                              const k8s::io::api::core::v1::Pod& pod);

// The same with the Service's ports and their names, which lead to those of `pod`.
Result<std::vector<ForwardedPort>> PortsOfService(const std::vector<std::string>& words,
                                                  const k8s::io::api::core::v1::Service& service,
                                                  const k8s::io::api::core::v1::Pod& pod);

// --address: "localhost" is both loopback addresses, of which one is enough. kInvalidArgument for what is
// neither that nor an address.
struct ListenAddress {
  std::string address;
  bool required = true;  // a failure to listen is one of the command
  bool operator==(const ListenAddress&) const = default;
};
Result<std::vector<ListenAddress>> ListenAddresses(const std::vector<std::string>& words);

}  // namespace holdfast::agent::cli
