// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/family_table.h"

#include <algorithm>
#include <utility>

#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/commit.h"
#include "netproxy/services/nft/affinity.h"

namespace holdfast::netproxy::nft {
namespace {

// A batch holds the kernel's netfilter lock: about 6 ms for so many elements.
constexpr size_t kElementsPerBatch = 8192;

// Those whose elements come from us and not from rules.
bool HoldsOurs(const std::string& set) {
  return !set.starts_with("__") && !set.starts_with("affinity-");
}

}  // namespace

FamilyTable::FamilyTable(Family family, std::string table_name) {
  layout_.family = family;
  layout_.table = std::move(table_name);
}

bool FamilyTable::IsWanted(const model::ServiceSettings& settings) const {
  return !book_.entries().empty() ||
         std::ranges::any_of(settings.service_cidrs,
                             [this](const Cidr& cidr) { return cidr.network.v6 == IsV6(); });
}

FamilyTable::Change FamilyTable::ChangeBy(const ServiceBook::Delta& delta,
                                          const model::ServiceSettings& before,
                                          const model::ServiceSettings& settings, bool relayout) {
  if (!book_.NeedsNewLayout() && !relayout) return {ChangeElements(layout_, delta), std::nullopt};
  ServiceLayout next = layout_;
  next.sizes = book_.TakeLayout(/*tidy=*/true);
  Transaction transaction = ChangeOfLayout(next, delta, before, settings);
  return {std::move(transaction), std::move(next)};
}

// From the layout that the kernel has to `next`.
Transaction FamilyTable::ChangeOfLayout(const ServiceLayout& next, const ServiceBook::Delta& delta,
                                        const model::ServiceSettings& before,
                                        const model::ServiceSettings& settings) const {
  const Table wanted = BuildServiceTable(next, settings);
  const Existing existing = ExistingOf(BuildServiceTable(layout_, before), wanted);
  const bool grown = std::ranges::any_of(next.sizes, [&](const auto& set) {
    const auto had = layout_.sizes.find(set.first);
    return had != layout_.sizes.end() && had->second != set.second;
  });
  // All that a new set holds is new; only one that is made again needs what it had.
  ElementsBySet all;
  if (grown) {
    all = book_.AllElements();
  } else {
    for (const SetElement& e : delta.added) all[e.set].push_back(e.element);
  }
  return ChangeLayout({existing, wanted, next, all, delta});
}

Result<uint64_t> FamilyTable::Synchronize(sys::NfSocket& socket,
                                          const model::ServiceSettings& settings) {
  if (!IsWanted(settings)) {
    ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket, family(), layout_.table));
    if (there) RETURN_IF_ERROR(Commit(socket, nft::Remove(family(), layout_.table)));
    present_ = false;
    return there ? 1 : 0;
  }
  ASSIGN_OR_RETURN(const std::optional<Observed> observed,
                   Observe(socket, family(), layout_.table, HoldsOurs));
  present_ = false;
  if (observed) {
    for (const auto& [id, usage] : std::map(book_.sets())) {
      const auto seen = observed->sets.find(NameOf(id));
      if (seen != observed->sets.end()) book_.Adopt(id, seen->second.shape.size);
    }
  }
  layout_.sizes = book_.TakeLayout(/*tidy=*/false);
  const Table wanted = BuildServiceTable(layout_, settings);
  const ElementsBySet all = book_.AllElements();
  uint64_t differences = 1;
  if (!observed) {
    RETURN_IF_ERROR(Load(socket, wanted, all));
  } else {
    const ServiceBook::Delta delta = Compare(*observed, layout_, all);
    const bool same = SameLayout(*observed, wanted);
    differences = delta.gone.size() + delta.added.size() + (same ? 0 : 1);
    RETURN_IF_ERROR(Commit(
        socket, same ? ChangeElements(layout_, delta)
                     : ChangeLayout({ExistingOf(*observed, wanted), wanted, layout_, all, delta})));
  }
  present_ = true;
  ASSIGN_OR_RETURN(const uint64_t stale, ForgetAllStaleClients(socket));
  return differences + stale;
}

Result<void> FamilyTable::Load(sys::NfSocket& socket, const Table& wanted,
                               const ElementsBySet& all) const {
  for (const Transaction& part : LoadInParts(wanted, layout_, all, kElementsPerBatch)) {
    RETURN_IF_ERROR(Commit(socket, part));
    HOLDFAST_PAUSE_POINT("nft.services.load");
  }
  return {};
}

Result<size_t> FamilyTable::Purge(sys::NfSocket& socket, const SetId& members,
                                  const std::vector<model::Endpoint>& endpoints) const {
  return PurgeAffinity(socket, family(), layout_.table, members, endpoints);
}

Result<void> FamilyTable::ForgetClients(sys::NfSocket& socket, const ServiceEntry& before) const {
  if (before.row->affinity.count() == 0) return {};
  const ServiceEntry* now = book_.Find(before.row->key.name);
  if (now == nullptr || now->row->affinity.count() == 0) return {};  // the maps went too
  for (const auto list : {model::EndpointList::kCluster, model::EndpointList::kLocal}) {
    const SetId members = MembersOf(*now->row, list);
    if (!layout_.sizes.contains(members)) continue;
    const auto& had = EndpointsOf(*before.row, list);
    const auto& has = EndpointsOf(*now->row, list);
    if (std::ranges::includes(has, had)) continue;
    RETURN_IF_ERROR(Purge(socket, members, has));
  }
  return {};
}

// Packets choose endpoints without a transaction.
Result<uint64_t> FamilyTable::ForgetAllStaleClients(sys::NfSocket& socket) const {
  if (!present_) return 0;
  uint64_t all = 0;
  for (const auto& [members, size] : layout_.sizes) {
    if (members.kind != SetId::Kind::kMembers) continue;
    const ServiceEntry* entry = book_.Find(members.service);
    if (entry == nullptr) continue;
    const auto list =
        members.count == 0 ? model::EndpointList::kCluster : model::EndpointList::kLocal;
    ASSIGN_OR_RETURN(const size_t purged, Purge(socket, members, EndpointsOf(*entry->row, list)));
    all += purged;
  }
  return all;
}

std::string FamilyTable::Dump(const model::ServiceSettings& settings) const {
  if (!present_) return {};
  std::string out = nft::Remove(family(), layout_.table).ToString();
  for (const Transaction& part :
       LoadInParts(BuildServiceTable(layout_, settings), layout_, book_.AllElements(), SIZE_MAX)) {
    out += part.ToString();
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
