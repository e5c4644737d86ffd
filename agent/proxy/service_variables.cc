// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_variables.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "agent/proxy/convert.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

std::string Upper(std::string text) {
  for (char& c : text) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::vector<std::string> VariablesOf(const corev1::Service& service) {
  const std::string& ip = service.spec().clusterip();
  if (ip.empty() || ip == kHeadlessIp || service.spec().ports().empty()) return {};
  const std::string name = Upper(service.metadata().name());
  const std::string host = ip.find(':') == std::string::npos ? ip : StrCat("[", ip, "]");
  std::vector<std::string> out = {StrCat(name, "_SERVICE_HOST=", ip),
                                  StrCat(name, "_SERVICE_PORT=", service.spec().ports(0).port())};
  for (const auto& port : service.spec().ports()) {
    if (port.name().empty()) continue;
    out.push_back(StrCat(name, "_SERVICE_PORT_", Upper(port.name()), "=", port.port()));
  }
  bool first = true;
  for (const auto& port : service.spec().ports()) {
    const std::string protocol = port.protocol().empty() ? "TCP" : port.protocol();
    const std::string lower = ToLower(protocol);
    const std::string url = StrCat(lower, "://", host, ":", port.port());
    if (std::exchange(first, false)) out.push_back(StrCat(name, "_PORT=", url));
    const std::string prefix = StrCat(name, "_PORT_", port.port(), "_", Upper(protocol));
    out.push_back(StrCat(prefix, "=", url));
    out.push_back(StrCat(prefix, "_PROTO=", lower));
    out.push_back(StrCat(prefix, "_PORT=", port.port()));
    out.push_back(StrCat(prefix, "_ADDR=", ip));
  }
  return out;
}

// The namespace's own comes later, so that it counts where both have a Service of that name.
std::vector<std::string> VariablesIn(const ServiceCatalog& catalog, const std::string& of_namespace,
                                     bool links) {
  std::vector<std::string> out;
  if (const ServicePtr server = catalog.Find({"default", "kubernetes"})) out = VariablesOf(*server);
  if (!links) return out;
  for (const ServicePtr& service : catalog.Services(of_namespace)) {
    std::ranges::move(VariablesOf(*service), std::back_inserter(out));
  }
  return out;
}

}  // namespace holdfast::agent
