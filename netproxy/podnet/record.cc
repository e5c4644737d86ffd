// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/record.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy {
namespace {

constexpr std::string_view kHeader = "holdfast-pod-network 1";

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::string_view NextWord(std::string_view& line, char separator = ' ') {
  const size_t end = line.find(separator);
  const std::string_view word = line.substr(0, end);
  line = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  return word;
}

std::optional<HostPort::Protocol> ParseProtocol(std::string_view word) {
  for (auto p : {HostPort::Protocol::kTcp, HostPort::Protocol::kUdp, HostPort::Protocol::kSctp}) {
    if (word == ProtocolName(p)) return p;
  }
  return std::nullopt;
}

bool ParsePort(std::string_view word, uint16_t& port) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), port);
  return error == std::errc() && end == word.data() + word.size();
}

// "tcp 8080 80 10.0.0.1", without the address for every address of the node.
bool ParseHostPort(std::string_view rest, PodRecord& record) {
  HostPort port;
  const auto protocol = ParseProtocol(NextWord(rest));
  if (!protocol) return false;
  port.protocol = *protocol;
  if (!ParsePort(NextWord(rest), port.host_port)) return false;
  if (!ParsePort(NextWord(rest), port.container_port)) return false;
  port.host_ip = std::string(rest);
  record.host_ports.push_back(std::move(port));
  return true;
}

bool ParseLine(std::string_view line, PodRecord& record) {
  const std::string_view key = NextWord(line);
  if (key == "namespace") {
    record.pod_namespace = std::string(line);
  } else if (key == "name") {
    record.pod_name = std::string(line);
  } else if (key == "address") {
    auto address = IpAddress::Parse(std::string(line));
    if (!address) return false;
    record.addresses.push_back(*address);
  } else if (key == "hostport") {
    return ParseHostPort(line, record);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<void> ValidateRecord(const PodRecord& record) {
  const std::string& uid = record.uid.value;
  const bool name_like = std::all_of(uid.begin(), uid.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (uid.empty() || uid.size() > 128 || uid[0] == '.' || !name_like) {
    return InvalidArgument(StrCat("pod uid \"", uid, "\": not usable as a name"));
  }
  if (!IsPrintable(record.pod_namespace) || !IsPrintable(record.pod_name)) {
    return InvalidArgument(
        StrCat("pod ", uid, ": namespace or name holds blanks or control characters"));
  }
  return {};
}

std::string FormatRecord(const PodRecord& record) {
  std::string out =
      StrCat(kHeader, "\nnamespace ", record.pod_namespace, "\nname ", record.pod_name, "\n");
  for (const IpAddress& a : record.addresses) out += StrCat("address ", a.ToString(), "\n");
  for (const HostPort& p : record.host_ports) {
    out += StrCat("hostport ", ProtocolName(p.protocol), " ", p.host_port, " ", p.container_port);
    if (!p.host_ip.empty()) out += StrCat(" ", p.host_ip);
    out += "\n";
  }
  return out + "end\n";
}

Result<PodRecord> ParseRecord(const PodUid& uid, std::string_view text) {
  PodRecord record;
  record.uid = uid;
  if (NextWord(text, '\n') != kHeader) {
    return InvalidArgument(StrCat("network record of pod ", uid.value, ": unknown version"));
  }
  while (!text.empty()) {
    const std::string_view line = NextWord(text, '\n');
    if (line == "end") return record;
    if (!ParseLine(line, record)) {
      return InvalidArgument(
          StrCat("network record of pod ", uid.value, ": bad line \"", line, "\""));
    }
  }
  return InvalidArgument(StrCat("network record of pod ", uid.value, ": cut short"));
}

}  // namespace holdfast::netproxy
