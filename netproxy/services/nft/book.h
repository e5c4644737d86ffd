// SPDX-License-Identifier: Apache-2.0
// ServiceBook: what the Service table of one family holds, by service port; so that a change costs
// what changes and nothing is read back or compared on its way. Pure: it says what the kernel has
// to be told.
//
// Each row's lists have an order of their own ("slots"): a new endpoint goes to the end, the last
// one takes the place of one that went. One thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/model/service_table.h"
#include "netproxy/services/nft/layout.h"

namespace holdfast::netproxy::nft {

struct SetElement {
  SetId set;
  Element element;
};

// A row with the slots of its lists.
struct ServiceEntry {
  model::ServicePortRowPtr row;
  std::vector<model::Endpoint> cluster;
  std::vector<model::Endpoint> local;
};

// `wanted` in an order that moves as few of `before` as possible.
std::vector<model::Endpoint> Reslot(const std::vector<model::Endpoint>& before,
                                    const std::vector<model::Endpoint>& wanted);

// All elements of one entry. Hairpin pairs and cluster IPs may be named by several entries.
std::vector<SetElement> Expand(const ServiceEntry& entry);

// The key that a frontend has in the sets.
Bytes FrontendBytes(model::L4Protocol protocol, const model::Frontend& frontend);
SetId MembersOf(const model::ServicePortRow& row, model::EndpointList list);
SetId::Domain DomainOf(const model::Frontend& frontend);

class ServiceBook {
 public:
  struct Usage {
    size_t used = 0;
    uint32_t size = 0;
  };
  struct Delta {
    std::vector<SetElement> gone;
    std::vector<SetElement> added;
  };

  ServiceBook();

  // Makes `next` the entry of `name` (nothing: removes it), adds to `delta` what that changes, and
  // returns the entry that was there: Swap() with that one undoes it.
  std::optional<ServiceEntry> Swap(const std::string& name, std::optional<ServiceEntry> next,
                                   Delta& delta);
  const ServiceEntry* Find(const std::string& name) const;
  // The entry that `row` makes of the one that is there.
  ServiceEntry Next(const model::ServicePortRowPtr& row) const;

  const std::map<SetId, Usage>& sets() const { return sets_; }
  // Sets that are new, or that are filled beyond three quarters.
  bool NeedsNewLayout() const { return needs_layout_; }
  // Gives every set its room and returns the sizes of all; `tidy` drops those that are empty.
  std::map<SetId, uint32_t> TakeLayout(bool tidy);
  // A set that exists with this size and is big enough keeps it.
  void Adopt(const SetId& id, uint32_t size);

  // Every element, grouped by set.
  std::map<SetId, std::vector<Element>> AllElements() const;
  const std::unordered_map<std::string, ServiceEntry>& entries() const { return entries_; }

 private:
  void Count(std::vector<SetElement>& elements, bool add);

  std::unordered_map<std::string, ServiceEntry> entries_;
  std::map<SetId, Usage> sets_;
  std::map<std::pair<SetId, Bytes>, size_t> shared_;  // how many entries name the element
  bool needs_layout_ = false;
};

}  // namespace holdfast::netproxy::nft
