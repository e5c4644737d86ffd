// SPDX-License-Identifier: Apache-2.0
// FlowRecord: the addresses and ports by which UDP and SCTP flows may have been translated, in a
// file that lives as long as the kernel's flows do (on a tmpfs). An agent that comes after one that
// ended finds there what it has no Service for any more. An address is recorded before its first
// rule and forgotten after its last flow. One thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/service_table.h"

namespace holdfast::netproxy {

struct FlowPort {
  bool v6 = false;
  model::L4Protocol protocol = model::L4Protocol::kUdp;
  uint16_t port = 0;
  auto operator<=>(const FlowPort&) const = default;
};
// A node port has the unspecified address.
using FlowPlace = std::pair<FlowPort, IpAddress>;

class FlowRecord {
 public:
  // Recorded nowhere: nothing is left behind, nothing is written.
  FlowRecord() = default;
  // No file is an empty record. The file's directory is made, and is for nothing else. An error
  // names the file and the line.
  static Result<FlowRecord> Load(const std::string& path);

  const std::set<FlowPlace>& places() const { return places_; }
  // After an error the record is as it was.
  Result<void> Add(const std::set<FlowPlace>& places);
  Result<void> Replace(std::set<FlowPlace> places);

 private:
  Result<void> Write(const std::set<FlowPlace>& places) const;

  DirFd directory_;
  std::string path_;
  std::set<FlowPlace> places_;
};

}  // namespace holdfast::netproxy
