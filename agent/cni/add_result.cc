// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/add_result.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "agent/cni/network_config.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cni {
namespace {

// An address with the length of its network, "10.1.0.5/24"; host bits are what it is about.
std::optional<IpAddress> AddressOf(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = IpAddress::Parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  unsigned length = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, length);
  if (error != std::errc() || stop != end || length > address->MaxPrefix()) return std::nullopt;
  return *address;
}

Result<void> CheckList(const Json& result, const char* key) {
  const auto list = result.find(key);
  if (list == result.end() || list->is_null()) return {};
  const bool all_objects = list->is_array() && std::ranges::all_of(*list, [](const Json& one) {
                             return one.is_object();
                           });
  if (all_objects) return {};
  return InvalidArgument(StrCat("result: ", key, " is no list of objects"));
}

size_t SizeOf(const Json& result, const char* key) {
  const auto list = result.find(key);
  return list == result.end() ? 0 : list->size();
}

Result<void> CheckIp(const Json& ip, size_t interfaces) {
  ASSIGN_OR_RETURN(const std::string address, TextOf(ip, "address"));
  if (!AddressOf(address)) {
    return InvalidArgument(StrCat("result: \"", address, "\" is no address with a prefix length"));
  }
  const auto interface = ip.find("interface");
  if (interface == ip.end() || interface->is_null()) return {};
  if (interface->is_number_integer() && *interface >= 0 && *interface < interfaces) return {};
  return InvalidArgument(
      StrCat("result: address ", address, " names an interface that is not there"));
}

Result<void> Check(const Json& result) {
  for (const char* list : {"interfaces", "ips", "routes"}) {
    RETURN_IF_ERROR(CheckList(result, list));
  }
  if (SizeOf(result, "interfaces") != 0) {
    for (const Json& interface : result.at("interfaces")) {
      RETURN_IF_ERROR(TextOf(interface, "name"));
      RETURN_IF_ERROR(TextOf(interface, "sandbox"));
    }
  }
  if (SizeOf(result, "ips") == 0) return {};
  for (const Json& ip : result.at("ips")) {
    RETURN_IF_ERROR(CheckIp(ip, SizeOf(result, "interfaces")));
  }
  return {};
}

// Up to 0.4.0 an address says its family.
void ConvertIps(Json& result, bool says_family) {
  if (SizeOf(result, "ips") == 0) return;
  for (Json& ip : result.at("ips")) {
    ip.erase("version");
    if (says_family) {
      ip["version"] = AddressOf(ip.at("address").get<std::string>())->v6 ? "6" : "4";
    }
  }
}

// What 1.1.0 brought.
void DropNew(Json& result) {
  constexpr std::array kOfInterfaces = {"mtu", "socketPath", "pciID"};
  constexpr std::array kOfRoutes = {"mtu", "advmss", "priority", "table", "scope"};
  if (SizeOf(result, "interfaces") != 0) {
    for (Json& interface : result.at("interfaces")) {
      for (const char* key : kOfInterfaces) interface.erase(key);
    }
  }
  if (SizeOf(result, "routes") != 0) {
    for (Json& route : result.at("routes")) {
      for (const char* key : kOfRoutes) route.erase(key);
    }
  }
}

// An address without an interface is that of the one that was asked for.
bool IsOfPod(const Json& result, const Json& ip, const std::string& interface) {
  const auto index = ip.find("interface");
  if (index == ip.end() || index->is_null()) return true;
  const Json& of = result.at("interfaces").at(index->get<size_t>());
  return of.value("name", "") == interface && !of.value("sandbox", "").empty();
}

}  // namespace

Result<Json> ReadAddResult(const std::string& text, const std::string& version) {
  ASSIGN_OR_RETURN(Json result, WithContext(ParseObject(text), "result"));
  ASSIGN_OR_RETURN(const std::string own, TextOf(result, "cniVersion"));
  if (!IsKnownVersion(own)) {
    return InvalidArgument(StrCat("result: cniVersion \"", own, "\" is none of ", KnownVersions()));
  }
  RETURN_IF_ERROR(Check(result));
  if (own == version) return result;
  ConvertIps(result, !IsAtLeast(version, "1.0.0"));
  if (!IsAtLeast(version, "1.1.0")) DropNew(result);
  result["cniVersion"] = version;
  return result;
}

std::vector<std::string> PodAddresses(const Json& result, const std::string& interface,
                                      bool v6_first) {
  std::array<std::string, 2> found;
  if (SizeOf(result, "ips") == 0) return {};
  for (const Json& ip : result.at("ips")) {
    if (!IsOfPod(result, ip, interface)) continue;
    const IpAddress address = *AddressOf(ip.at("address").get<std::string>());
    std::string& place = found[address.v6 == v6_first ? 0 : 1];
    if (place.empty()) place = address.ToString();
  }
  std::vector<std::string> addresses(found.begin(), found.end());
  std::erase(addresses, "");
  return addresses;
}

}  // namespace holdfast::agent::cni
