// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/book.h"

#include <algorithm>
#include <utility>

namespace holdfast::netproxy::ipvs {
namespace {

size_t Index(bool v6) { return v6 ? 1 : 0; }

// One more or one less of `key`; true when it came or went altogether.
template <class Map, class Key>
bool Count(Map& map, const Key& key, bool more) {
  if (more) return ++map[key] == 1;
  const auto found = map.find(key);
  if (found == map.end() || --found->second != 0) return false;
  map.erase(found);
  return true;
}

std::set<uint8_t> KeysOf(const std::map<uint8_t, uint32_t>& prefixes) {
  std::set<uint8_t> out;
  for (const auto& [prefix, count] : prefixes) out.insert(prefix);
  return out;
}

}  // namespace

void Book::Reset(CompileContext context) {
  *this = Book();
  context_ = std::move(context);
}

Book::Delta Book::Enter(std::span<const Step> steps) {
  Delta delta;
  Counts counts;
  const std::array<std::set<uint8_t>, 2> before = {Prefixes(false), Prefixes(true)};
  // An address may move from one row to another: what was goes before what comes.
  for (const Step& step : steps) Remove(step.key, delta, counts);
  for (const Step& step : steps) {
    if (step.row) Add(step, delta, counts);
  }
  for (const size_t family : {0u, 1u}) {
    delta.relayout[family] = Prefixes(family == 1) != before[family];
    for (const auto& [element, change] : counts.elements[family]) {
      if (change < 0) delta.gone[family].push_back(element);
      if (change > 0) delta.added[family].push_back(element);
    }
  }
  return delta;
}

void Book::Remove(const model::ServicePortKey& key, Delta& delta, Counts& counts) {
  const auto found = rows_.find(key);
  if (found == rows_.end()) return;
  const size_t family = Index(key.v6);
  const Entry& entry = found->second;
  for (const auto& [virtual_key, server] : entry.rules.virtuals) {
    delta.virtuals.insert(virtual_key);
    virtuals_.erase(virtual_key);
    owners_.erase(virtual_key);
  }
  for (const IpAddress& address : entry.rules.addresses) {
    if (Count(addresses_, address, false)) delta.addresses.insert(address);
  }
  for (const RuleElement& element : entry.rules.elements) {
    if (Count(elements_[family], element, false)) --counts.elements[family][element];
    if (element.set.set == RuleSet::kAllowed) Count(prefixes_[family], element.set.prefix, false);
  }
  if (entry.has_slot) slots_[family].erase(entry.slot);
  --rows_of_[family];
  rows_.erase(found);
}

void Book::Add(const Step& step, Delta& delta, Counts& counts) {
  const size_t family = Index(step.key.v6);
  Entry entry;
  entry.row = step.row;
  entry.has_slot = NeedsSlot(*step.row, context_);
  if (entry.has_slot) entry.slot = TakeSlot(step.key);
  entry.rules = CompileRow(*step.row, context_, entry.slot);
  for (const auto& [virtual_key, server] : entry.rules.virtuals) {
    delta.virtuals.insert(virtual_key);
    virtuals_[virtual_key] = server;
    owners_[virtual_key] = step.key;
  }
  for (const IpAddress& address : entry.rules.addresses) {
    if (Count(addresses_, address, true)) delta.addresses.insert(address);
  }
  for (const RuleElement& element : entry.rules.elements) {
    if (Count(elements_[family], element, true)) ++counts.elements[family][element];
    if (element.set.set == RuleSet::kAllowed) Count(prefixes_[family], element.set.prefix, true);
  }
  ++rows_of_[family];
  rows_[step.key] = std::move(entry);
}

// The next free one from the one that the name would like.
uint32_t Book::TakeSlot(const model::ServicePortKey& key) {
  auto& slots = slots_[Index(key.v6)];
  uint32_t slot = PreferredSlot(key.name);
  while (slots.contains(slot)) slot = (slot + 1) % kSlots;
  slots[slot] = key.name;
  return slot;
}

const VirtualServer* Book::Find(const VirtualKey& key) const {
  const auto found = virtuals_.find(key);
  return found == virtuals_.end() ? nullptr : &found->second;
}

const model::ServicePortKey* Book::OwnerOf(const VirtualKey& key) const {
  const auto found = owners_.find(key);
  return found == owners_.end() ? nullptr : &found->second;
}

std::vector<IpAddress> Book::Addresses() const {
  std::vector<IpAddress> out;
  for (const auto& [address, count] : addresses_) out.push_back(address);
  return out;
}

std::vector<model::ServicePortKey> Book::RowsAt(const IpAddress& address) const {
  std::vector<model::ServicePortKey> out;
  for (const auto& [key, entry] : rows_) {
    const std::vector<IpAddress>& addresses = entry.rules.addresses;
    if (std::binary_search(addresses.begin(), addresses.end(), address)) out.push_back(key);
  }
  return out;
}

std::set<uint8_t> Book::Prefixes(bool v6) const { return KeysOf(prefixes_[Index(v6)]); }

std::vector<model::ServicePortRowPtr> Book::AllRows() const {
  std::vector<model::ServicePortRowPtr> out;
  for (const auto& [key, entry] : rows_) out.push_back(entry.row);
  return out;
}

}  // namespace holdfast::netproxy::ipvs
