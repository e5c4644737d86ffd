// SPDX-License-Identifier: Apache-2.0
#include "netproxy/conntrack/flow_record.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kLargest = 16ull << 20;  // 300,000 lines
constexpr mode_t kDirMode = 0700;
constexpr mode_t kFileMode = 0600;

// "udp 53 10.96.0.10"
std::string LineOf(const FlowPlace& place) {
  const char* protocol = place.first.protocol == model::L4Protocol::kSctp ? "sctp" : "udp";
  return StrCat(protocol, " ", place.first.port, " ", place.second.ToString(), "\n");
}

std::optional<FlowPlace> ParseLine(const std::string& line) {
  std::istringstream words(line);
  std::string protocol;
  std::string address;
  FlowPlace place;
  if (!(words >> protocol >> place.first.port >> address) || (words >> std::ws, !words.eof())) {
    return std::nullopt;
  }
  const auto ip = IpAddress::Parse(address);
  if (!ip || (protocol != "udp" && protocol != "sctp")) return std::nullopt;
  place.first.protocol = protocol == "udp" ? model::L4Protocol::kUdp : model::L4Protocol::kSctp;
  place.first.v6 = ip->v6;
  place.second = *ip;
  return place;
}

}  // namespace

Result<FlowRecord> FlowRecord::Load(const std::string& path) {
  FlowRecord record;
  record.path_ = path;
  const std::string directory = path.substr(0, path.rfind('/'));
  ASSIGN_OR_RETURN(record.directory_, sys::MakeDirs(AT_FDCWD, directory, kDirMode));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(AT_FDCWD, directory));
  const auto text = sys::ReadFileAt(AT_FDCWD, path, kLargest);
  if (!text && text.error().code() == Code::kNotFound) return record;
  if (!text) return text.error();
  std::istringstream lines(*text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto place = ParseLine(line);
    if (!place) return InvalidArgument(StrCat(path, ":", number, ": no address of flows: ", line));
    record.places_.insert(std::move(*place));
  }
  return record;
}

Result<void> FlowRecord::Add(const std::set<FlowPlace>& places) {
  const auto known = [this](const FlowPlace& place) { return places_.contains(place); };
  if (std::ranges::all_of(places, known)) return {};
  std::set<FlowPlace> all = places_;
  all.insert(places.begin(), places.end());
  return Replace(std::move(all));
}

Result<void> FlowRecord::Replace(std::set<FlowPlace> places) {
  if (places == places_) return {};
  if (directory_) RETURN_IF_ERROR(Write(places));
  places_ = std::move(places);
  return {};
}

Result<void> FlowRecord::Write(const std::set<FlowPlace>& places) const {
  std::string text;
  for (const FlowPlace& place : places) text += LineOf(place);
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(directory_.get(), path_.substr(path_.rfind('/') + 1), text,
                                         kFileMode, /*durable=*/false));
  HOLDFAST_PAUSE_POINT("conntrack.recorded");
  return {};
}

}  // namespace holdfast::netproxy
