// SPDX-License-Identifier: Apache-2.0
// ServiceBackEnd: what nftables, iptables and IPVS offer the agent: rows in, kernel state out.
//
// One thread calls; calls block on the kernel only. A back end remembers the rows it applied, so a
// change costs what changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/service_table.h"

namespace holdfast {

struct RefusedServicePort {
  model::ServicePortKey key;
  std::string reason;
};

struct ServiceApplied {
  // Quarantined: the kernel did not take these, everything else is in place. Of a refused row
  // nothing is left in the kernel; it is tried again with the next change that names it.
  std::vector<RefusedServicePort> refused;
};

// How many rules one table of a family has.
struct RuleCount {
  bool v6 = false;
  std::string table;
  uint64_t rules = 0;
  uint64_t written = 0;  // of them with the last Apply()
  bool operator==(const RuleCount&) const = default;
};

class ServiceBackEnd {
 public:
  virtual ~ServiceBackEnd() = default;

  // Brings the kernel from the version applied last to this one. After an error nothing is known:
  // the next change must be complete, and a complete one repairs whatever it finds. Connections
  // that still have their endpoint go on.
  virtual Result<ServiceApplied> Apply(const model::ServiceChange& change) = 0;
  // Reads the kernel back and puts back what somebody else took away or added among our objects.
  // The number of differences that were found.
  virtual Result<uint64_t> Repair() = 0;
  // Takes everything of this back end out of the kernel; false when nothing was there.
  virtual Result<bool> Remove() = 0;
  // Of a back end whose rules people count.
  virtual std::vector<RuleCount> CountRules() const { return {}; }
  // The rules as text, in the tool's own language where there is one.
  virtual Result<std::string> Dump() = 0;
};

// Tells that somebody else touched a back end's rules. A hint to call Repair(), no more: what it
// misses the periodic Repair() finds. One thread calls.
class RulesWatch {
 public:
  virtual ~RulesWatch() = default;
  // Readable when there is something to Drain().
  virtual int fd() const = 0;
  // Takes all that waits. True when the rules were touched, or may have been.
  virtual Result<bool> Drain() = 0;
};

}  // namespace holdfast
