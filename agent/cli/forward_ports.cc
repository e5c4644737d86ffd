// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/forward_ports.h"

#include <arpa/inet.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr int kMaxPort = 65535;

Error BadPort(std::string_view which, std::string_view word) {
  return InvalidArgument(
      StrCat("error parsing ", which, " port '", word, "': must be a number between 1 and 65535"));
}

struct PortWords {
  std::string local;
  std::string remote;
};

Result<PortWords> SplitPortWord(const std::string& word) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos) return PortWords{word, word};
  PortWords words{word.substr(0, colon), word.substr(colon + 1)};
  if (words.remote.find(':') != std::string::npos) {
    return InvalidArgument(StrCat("invalid port format '", word, "'"));
  }
  if (words.remote.empty()) return InvalidArgument("remote port cannot be empty");
  return words;
}

Result<int> NamedPort(const core::Pod& pod, const std::string& name) {
  for (const auto& container : pod.spec().containers()) {
    for (const auto& port : container.ports()) {
      if (port.name() == name) return port.containerport();
    }
  }
  return NotFound(
      StrCat("Pod '", pod.metadata().name(), "' does not have a named port '", name, "'"));
}

// Whether the ports that `ports` lists have UDP under this number, and no TCP.
template <class Ports, class Number>
bool IsUdpOnly(const Ports& ports, int number, Number number_of) {
  bool udp = false;
  bool tcp = false;
  for (const auto& port : ports) {
    if (number_of(port) != number) continue;
    udp |= port.protocol() == "UDP";
    tcp |= port.protocol() == "TCP";
  }
  return udp && !tcp;
}

Error NotUdp(const std::string& word) {
  return InvalidArgument(StrCat("UDP protocol is not supported for ", word));
}

Result<int> RemoteOfPod(const core::Pod& pod, const std::string& word) {
  auto number = WholeNumber<int>(word);
  if (!number) {
    ASSIGN_OR_RETURN(number, NamedPort(pod, word));
  }
  for (const auto& container : pod.spec().containers()) {
    if (IsUdpOnly(container.ports(), *number, [](const auto& p) { return p.containerport(); })) {
      return NotUdp(word);
    }
  }
  return *number;
}

Result<int> NumberOfServicePort(const core::Service& service, const std::string& word) {
  if (const auto number = WholeNumber<int>(word)) return *number;
  for (const core::ServicePort& port : service.spec().ports()) {
    if (port.name() == word) return port.port();
  }
  return NotFound(
      StrCat("Service '", service.metadata().name(), "' does not have a named port '", word, "'"));
}

Result<int> TargetPortOf(const core::Service& service, const core::Pod& pod, int number) {
  for (const core::ServicePort& port : service.spec().ports()) {
    if (port.port() != number) continue;
    if (service.spec().clusterip() == "None") return number;
    if (!port.has_targetport()) return number;
    const auto& target = port.targetport();
    if (target.type() == 1) return NamedPort(pod, target.strval());
    return target.intval() == 0 ? number : target.intval();
  }
  return NotFound(
      StrCat("Service ", service.metadata().name(), " does not have a service port ", number));
}

Result<ForwardedPort> MakeForwardedPort(std::string_view local_word, std::string_view local,
                                        int remote) {
  if (remote < 1 || remote > kMaxPort) return BadPort("remote", StrCat(remote));
  int from = 0;
  if (!local.empty()) {
    const auto number = WholeNumber<int>(local);
    if (!number || *number < 0 || *number > kMaxPort) return BadPort("local", local_word);
    from = *number;
  }
  return ForwardedPort{static_cast<uint16_t>(from), static_cast<uint16_t>(remote)};
}

}  // namespace

Result<std::vector<ForwardedPort>> PortsOfPod(const std::vector<std::string>& words,
                                              const core::Pod& pod) {
  std::vector<ForwardedPort> ports;
  for (const std::string& word : words) {
    ASSIGN_OR_RETURN(const PortWords split, SplitPortWord(word));
    ASSIGN_OR_RETURN(const int remote, RemoteOfPod(pod, split.remote));
    // A name alone is the same port here.
    const std::string local = split.local == split.remote ? StrCat(remote) : split.local;
    ASSIGN_OR_RETURN(const ForwardedPort port, MakeForwardedPort(split.local, local, remote));
    ports.push_back(port);
  }
  return ports;
}

Result<std::vector<ForwardedPort>> PortsOfService(const std::vector<std::string>& words,
                                                  const core::Service& service,
                                                  const core::Pod& pod) {
  std::vector<ForwardedPort> ports;
  for (const std::string& word : words) {
    ASSIGN_OR_RETURN(const PortWords split, SplitPortWord(word));
    ASSIGN_OR_RETURN(const int number, NumberOfServicePort(service, split.remote));
    if (IsUdpOnly(service.spec().ports(), number, [](const auto& p) { return p.port(); })) {
      return NotUdp(split.remote);
    }
    ASSIGN_OR_RETURN(const int remote, TargetPortOf(service, pod, number));
    const std::string local = split.local == split.remote ? StrCat(number) : split.local;
    ASSIGN_OR_RETURN(const ForwardedPort port, MakeForwardedPort(split.local, local, remote));
    ports.push_back(port);
  }
  return ports;
}

Result<std::vector<ListenAddress>> ListenAddresses(const std::vector<std::string>& words) {
  std::vector<ListenAddress> addresses;
  const auto add = [&addresses](ListenAddress wanted) {
    const auto known = std::find_if(addresses.begin(), addresses.end(), [&](const auto& each) {
      return each.address == wanted.address;
    });
    if (known == addresses.end()) {
      addresses.push_back(std::move(wanted));
    } else {
      known->required |= wanted.required;
    }
  };
  for (const std::string& word : words) {
    in6_addr bytes{};
    if (word == "localhost") {
      add({"127.0.0.1", false});
      add({"::1", false});
    } else if (::inet_pton(AF_INET, word.c_str(), &bytes) == 1 ||
               ::inet_pton(AF_INET6, word.c_str(), &bytes) == 1) {
      add({word, true});
    } else {
      return InvalidArgument(StrCat(word, " is not a valid IP"));
    }
  }
  return addresses;
}

}  // namespace holdfast::agent::cli
