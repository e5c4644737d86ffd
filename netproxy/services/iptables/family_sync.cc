// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/family_sync.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {

Result<std::vector<RefusedServicePort>> FamilySync::Apply(const model::ServiceChange& change,
                                                          bool liberal_conntrack) {
  if (!change.complete && !synced_) {
    return Conflict("iptables: the change after a failure must be complete");
  }
  written_ = {};
  ASSIGN_OR_RETURN(const bool written, WriteChange(change, liberal_conntrack));
  if (written) return std::vector<RefusedServicePort>();
  synced_ = false;
  ASSIGN_OR_RETURN(auto refused, ReconcileWithout(change.rows));
  synced_ = true;
  return refused;
}

Result<bool> FamilySync::WriteChange(const model::ServiceChange& change, bool liberal_conntrack) {
  CompileContext context = book_.context();
  context.settings = change.settings;
  context.v6 = v6_;
  context.liberal_conntrack = liberal_conntrack;
  if (change.complete) {
    book_.Reset(std::move(context), change.rows);
    return false;
  }
  const bool same_context = context == book_.context();
  if (!same_context) book_.SetContext(std::move(context));
  const std::optional<std::string> text = book_.Update(change.rows, change.removed);
  if (!text || !same_context) return false;
  if (text->empty()) return true;
  synced_ = false;
  if (auto restored = Write(*text); !restored) {
    // Somebody changed our chains, or one of the rows is at fault: the full way tells.
    if (restored.error().code() == Code::kInvalidArgument) return false;
    return std::move(restored.error());
  }
  synced_ = true;
  return true;
}

Result<void> FamilySync::Write(const std::string& text) {
  RETURN_IF_ERROR(host_.Restore(v6_, text));
  written_ = iptables::CountRules(text);
  return {};
}

std::vector<RuleCount> FamilySync::CountRules() const {
  std::vector<RuleCount> out;
  out.reserve(kTables);
  for (const Table table : kAllTables) {
    out.push_back(
        {v6_, std::string(ToString(table)), book_.counts()[Index(table)], written_[Index(table)]});
  }
  return out;
}

Result<uint64_t> FamilySync::Reconcile() {
  ASSIGN_OR_RETURN(const std::string text, host_.Save(v6_));
  ASSIGN_OR_RETURN(const Saved saved, ParseSaved(text));
  const Repairs repairs = Compare(saved, book_.Wanted());
  if (!repairs.text.empty()) RETURN_IF_ERROR(Write(repairs.text));
  return repairs.differences;
}

Result<std::vector<RefusedServicePort>> FamilySync::ReconcileWithout(Rows suspects) {
  std::vector<RefusedServicePort> refused;
  auto first = Reconcile();
  if (first) return refused;
  if (first.error().code() != Code::kInvalidArgument) return std::move(first.error());
  std::vector<model::ServicePortRowPtr> mine;
  for (const model::ServicePortRowPtr& row : suspects) {
    if (row->key.v6 == v6_) mine.push_back(row);
  }
  RETURN_IF_ERROR(FindRefused(mine, refused));
  if (refused.empty()) return std::move(first.error());
  std::vector<model::ServicePortKey> keys;
  for (const RefusedServicePort& port : refused) keys.push_back(port.key);
  book_.Update({}, keys);
  RETURN_IF_ERROR(Reconcile());
  return refused;
}

// Halves, until each bad row stands alone. In a namespace of its own, so that nobody's packets meet
// half of the rules.
Result<void> FamilySync::FindRefused(Rows rows, std::vector<RefusedServicePort>& refused) {
  if (rows.empty()) return {};
  FamilyBook part;
  part.Reset(book_.context(), rows);
  auto tried = host_.Try(v6_, Compare({}, part.Wanted()).text);
  if (tried) return {};
  if (tried.error().code() != Code::kInvalidArgument) return tried;
  if (rows.size() == 1) {
    refused.push_back({rows.front()->key, tried.error().message()});
    return {};
  }
  RETURN_IF_ERROR(FindRefused(rows.first(rows.size() / 2), refused));
  return FindRefused(rows.subspan(rows.size() / 2), refused);
}

Result<uint64_t> FamilySync::Repair() {
  if (!synced_) return uint64_t{0};
  synced_ = false;
  ASSIGN_OR_RETURN(const uint64_t differences, Reconcile());
  synced_ = true;
  return differences;
}

}  // namespace holdfast::netproxy::iptables
