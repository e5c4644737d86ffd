// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/back_end.h"

#include <algorithm>
#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/services/nft/adopt.h"
#include "netproxy/services/nft/refused.h"

namespace holdfast::netproxy::nft {
namespace {

// Nor after a failure: what is meant to be there comes with the next complete change.
Error NothingApplied() { return InvalidArgument("nft services: nothing was applied yet"); }

}  // namespace

NftServices::NftServices(std::string table_name, sys::NfSocket socket)
    : table_name_(std::move(table_name)), socket_(std::move(socket)) {
  Forget();
}

void NftServices::Forget() {
  settings_.reset();
  tables_.clear();
  tables_.emplace_back(Family::kIp, table_name_);
  tables_.emplace_back(Family::kIp6, table_name_);
}

Result<std::unique_ptr<NftServices>> NftServices::Open(const std::string& table_name) {
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  return std::unique_ptr<NftServices>(new NftServices(table_name, std::move(socket)));
}

Result<ServiceApplied> NftServices::Apply(const model::ServiceChange& change) {
  if (!change.complete && !settings_) {
    return InvalidArgument("nft services: the first change must be complete");
  }
  compared_.reset();  // to what was wanted
  auto applied = change.complete ? ApplyAll(change) : ApplySome(change);
  if (!applied) settings_.reset();  // nothing is known: the next one must be complete
  return applied;
}

// --- A complete change ---

Result<ServiceApplied> NftServices::ApplyAll(const model::ServiceChange& change) {
  settings_ = change.settings;
  RETURN_IF_ERROR(StartBooks(change.rows));
  ServiceApplied out;
  auto done = SynchronizeAll();
  if (!done) {
    out.refused = FindRefused(socket_, table_name_, *settings_, change.rows);
    if (out.refused.empty()) return std::move(done.error());
    for (const RefusedServicePort& refused : out.refused) {
      ServiceBook::Delta ignored;
      TableOf(refused.key.v6).book().Swap(refused.key.name, std::nullopt, ignored);
    }
    ASSIGN_OR_RETURN(const uint64_t differences, SynchronizeAll());
    (void)differences;  // a load, not a repair
  }
  return out;
}

// New books with all rows; slots as they are, in the old books or else in the kernel.
Result<void> NftServices::StartBooks(const std::vector<model::ServicePortRowPtr>& rows) {
  for (FamilyTable& table : tables_) {
    const ServiceBook before = std::exchange(table.book(), ServiceBook());
    SlotReader slots;
    if (before.entries().empty()) {
      ASSIGN_OR_RETURN(slots, SlotReader::Read(socket_, table.family(), table_name_));
    }
    ServiceBook::Delta ignored;
    for (const model::ServicePortRowPtr& row : rows) {
      if (row->key.v6 != table.IsV6()) continue;
      table.book().Swap(row->key.name,
                        before.entries().empty() ? slots.Entry(row) : before.Next(row), ignored);
    }
  }
  return {};
}

// --- A change of some ---

Result<ServiceApplied> NftServices::ApplySome(const model::ServiceChange& change) {
  std::vector<Step> steps;
  for (const model::ServicePortKey& key : change.removed) steps.push_back({key, nullptr});
  for (const model::ServicePortRowPtr& row : change.rows) steps.push_back({row->key, row});
  if (change.settings != settings_ && *change.settings != *settings_) relayout_ = true;
  const auto settings = std::exchange(settings_, change.settings);
  auto sent = Send(steps, *settings);
  ServiceApplied out;
  if (sent) return out;

  // Either the kernel does not take some of it, or it is no longer what the books say.
  out.refused = FindRefused(socket_, table_name_, *settings_, change.rows);
  for (Step& step : steps) {
    const bool refused = std::any_of(out.refused.begin(), out.refused.end(),
                                     [&](const auto& r) { return r.key == step.key; });
    if (refused) step.row = nullptr;
  }
  if (!out.refused.empty() && Send(steps, *settings)) return out;
  Deltas ignored;
  Enter(steps, ignored);
  ASSIGN_OR_RETURN(const uint64_t differences, SynchronizeAll());
  (void)differences;
  return out;
}

std::vector<NftServices::Undo> NftServices::Enter(const std::vector<Step>& steps, Deltas& deltas) {
  std::vector<Undo> undo;
  for (const Step& step : steps) {
    ServiceBook& book = TableOf(step.key.v6).book();
    std::optional<ServiceEntry> next;
    if (step.row) next = book.Next(step.row);
    undo.push_back(
        {step.key, book.Swap(step.key.name, std::move(next), deltas[step.key.v6 ? 1 : 0])});
  }
  return undo;
}

Result<void> NftServices::Send(const std::vector<Step>& steps,
                               const model::ServiceSettings& previous) {
  Deltas deltas;
  std::vector<Undo> undo = Enter(steps, deltas);
  Transaction transaction;
  std::array<std::optional<ServiceLayout>, 2> layouts;
  bool load = false;
  for (size_t i = 0; i < tables_.size(); ++i) {
    FamilyTable& table = tables_[i];
    load |= table.IsWanted(*settings_) != table.present();
    if (!table.present()) continue;
    FamilyTable::Change change = table.ChangeBy(deltas[i], previous, *settings_, relayout_);
    transaction.Append(std::move(change.transaction));
    layouts[i] = std::move(change.layout);
  }
  auto done = Commit(socket_, transaction);
  if (!done) {
    Deltas ignored;
    for (auto it = undo.rbegin(); it != undo.rend(); ++it) {
      TableOf(it->key.v6)
          .book()
          .Swap(it->key.name, std::move(it->entry), ignored[it->key.v6 ? 1 : 0]);
    }
    return done;
  }
  relayout_ = false;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (layouts[i]) tables_[i].NoteLayout(std::move(*layouts[i]));
  }
  if (load) RETURN_IF_ERROR(SynchronizeAll());
  for (const Undo& step : undo) {
    if (!step.entry) continue;
    RETURN_IF_ERROR(TableOf(step.key.v6).ForgetClients(socket_, *step.entry));
  }
  return {};
}

// --- What the kernel has ---

Result<uint64_t> NftServices::SynchronizeAll() {
  uint64_t differences = 0;
  for (FamilyTable& table : tables_) {
    ASSIGN_OR_RETURN(const uint64_t found, table.Synchronize(socket_, *settings_));
    differences += found;
  }
  relayout_ = false;
  return differences;
}

// --- The rest ---

Result<uint64_t> NftServices::Repair() {
  if (!settings_) return NothingApplied();
  // Before what is compared: a change meanwhile has the next one look again.
  ASSIGN_OR_RETURN(const uint32_t generation, Generation(socket_));
  if (compared_ == generation) {
    uint64_t stale = 0;
    for (const FamilyTable& table : tables_) {
      ASSIGN_OR_RETURN(const uint64_t found, table.ForgetAllStaleClients(socket_));
      stale += found;
    }
    return stale;
  }
  ASSIGN_OR_RETURN(const uint64_t differences, SynchronizeAll());
  if (differences == 0) compared_ = generation;
  return differences;
}

Result<bool> NftServices::Remove() {
  Forget();
  Transaction change;
  bool any = false;
  for (const FamilyTable& table : tables_) {
    ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket_, table.family(), table_name_));
    if (there) change.Append(nft::Remove(table.family(), table_name_));
    any |= there;
  }
  RETURN_IF_ERROR(Commit(socket_, change));
  return any;
}

Result<std::string> NftServices::Dump() {
  if (!settings_) return NothingApplied();
  std::string out;
  for (const FamilyTable& table : tables_) out += table.Dump(*settings_);
  return out;
}

}  // namespace holdfast::netproxy::nft
