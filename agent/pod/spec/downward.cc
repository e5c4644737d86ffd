// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/downward.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_resources.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Map = google::protobuf::Map<std::string, std::string>;

// The key of "metadata.labels['key']" when `path` begins with `prefix`.
std::optional<std::string> Subscript(const std::string& path, const std::string& prefix) {
  if (!path.starts_with(prefix + "['") || !path.ends_with("']")) return std::nullopt;
  return path.substr(prefix.size() + 2, path.size() - prefix.size() - 4);
}

std::string ValueOf(const Map& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string() : it->second;
}

int64_t DivideUp(int64_t value, int64_t divisor) {
  return divisor <= 0 ? value : (value + divisor - 1) / divisor;
}

// The divisor in the unit of the value: thousandths for CPU. "0" and absent mean 1.
int64_t Divisor(const corev1::ResourceFieldSelector& selector, bool cpu) {
  const auto amount = kube::Amount::Parse(selector.divisor().string());
  if (!amount || amount->IsZero()) return cpu ? 1000 : 1;
  return cpu ? amount->Milli() : amount->Units();
}

int64_t MemoryForPods(const NodeEnvironment& node) {
  return node.memory_allocatable_bytes > 0 ? node.memory_allocatable_bytes
                                           : node.memory_capacity_bytes;
}

uint32_t CodePoint(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xFFu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6u | (byte(i) & 0x3Fu);
  return code;
}

// What Go writes as it is: no controls, no spaces but the plain one, no marks that cannot be seen, nothing private.
bool IsShown(uint32_t code) {
  static constexpr std::pair<uint32_t, uint32_t> kHidden[] = {
      {0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
      {0x6DD, 0x6DD},   {0x70F, 0x70F},   {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
      {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},
      {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF}};
  return std::none_of(std::begin(kHidden), std::end(kHidden), [code](const auto& range) {
    return code >= range.first && code <= range.second;
  });
}

void AppendEscaped(uint32_t code, std::string& out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const int digits = code < 0x80 ? 2 : code <= 0xFFFF ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out.push_back(kDigits[code >> static_cast<unsigned>(shift) & 0xFu]);
  }
}

// As Go's %q writes it.
std::string GoQuoted(std::string_view text) {
  static constexpr std::string_view kNamed = "\a\b\t\n\v\f\r\"\\";
  static constexpr std::string_view kNames = "abtnvfr\"\\";
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = printable_internal::CharacterLength(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    if (const size_t named = kNamed.find(character[0]); named != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kNames[named]);
    } else if (length == 0) {
      printable_internal::AppendHex(static_cast<unsigned char>(character[0]), "\\x", out);
    } else if (const uint32_t code = CodePoint(character); IsShown(code)) {
      out += character;
    } else {
      AppendEscaped(code, out);
    }
    text.remove_prefix(character.size());
  }
  return out + "\"";
}

std::string FormatMapOf(const Map& map) {
  return FormatMap(std::map<std::string, std::string>(map.begin(), map.end()));
}

}  // namespace

std::string FormatMap(const std::map<std::string, std::string>& map) {
  std::string out;
  for (const auto& [key, value] : map) {
    out += StrCat(out.empty() ? "" : "\n", key, "=", GoQuoted(value));
  }
  return out;
}

Result<std::string> DownwardField(const corev1::Pod& pod, const std::string& path,
                                  const NodeEnvironment& node,
                                  const std::vector<std::string>& pod_ips) {
  const auto& meta = pod.metadata();
  const auto first = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string() : list.front();
  };
  const std::vector<std::string>& ips = pod.spec().hostnetwork() ? node.host_ips : pod_ips;
  if (path == "metadata.name") return meta.name();
  if (path == "metadata.namespace") return meta.namespace_();
  if (path == "metadata.uid") return meta.uid();
  if (path == "metadata.labels") return FormatMapOf(meta.labels());
  if (path == "metadata.annotations") return FormatMapOf(meta.annotations());
  if (path == "spec.nodeName") return node.node_name;
  if (path == "spec.serviceAccountName") return pod.spec().serviceaccountname();
  if (path == "status.hostIP") return first(node.host_ips);
  if (path == "status.hostIPs") return Join(node.host_ips, ",");
  if (path == "status.podIP") return first(ips);
  if (path == "status.podIPs") return Join(ips, ",");
  if (const auto key = Subscript(path, "metadata.labels")) return ValueOf(meta.labels(), *key);
  if (const auto key = Subscript(path, "metadata.annotations")) {
    return ValueOf(meta.annotations(), *key);
  }
  return InvalidArgument(StrCat("unsupported fieldPath: ", path));
}

Result<std::string> DownwardResource(const corev1::Pod& pod, const corev1::Container* self,
                                     const corev1::ResourceFieldSelector& selector,
                                     const NodeEnvironment& node) {
  const corev1::Container* c =
      selector.containername().empty() ? self : kube::FindContainer(pod, selector.containername());
  if (c == nullptr) return NotFound(StrCat("container ", selector.containername(), " not found"));
  const std::string& path = selector.resource();
  const size_t dot = path.find('.');
  const std::string kind = path.substr(0, dot);
  const std::string resource = dot == std::string::npos ? std::string() : path.substr(dot + 1);
  if ((kind != "limits" && kind != "requests") || resource.empty()) {
    return InvalidArgument(StrCat("unsupported container resource : ", path));
  }
  const bool limit = kind == "limits";
  const bool cpu = resource == "cpu";
  // Of what may be used up by others the pod's limit stands for one that is missing.
  const bool shared = cpu || resource == "memory";
  const kube::ResourceList amounts = !limit   ? kube::Requests(*c)
                                     : shared ? kube::EffectiveLimits(pod.spec(), *c)
                                              : kube::Limits(*c);
  std::optional<int64_t> value;
  const auto it = amounts.find(resource);
  if (it != amounts.end() && !(limit && shared && it->second.IsZero())) {
    value = cpu ? it->second.Milli() : it->second.Units();
  }
  if (!value && limit && cpu) value = node.cpu_milli_capacity;
  if (!value && limit && resource == "memory") value = MemoryForPods(node);
  return std::to_string(DivideUp(value.value_or(0), Divisor(selector, cpu)));
}

}  // namespace holdfast::agent
