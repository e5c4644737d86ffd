// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/back_end.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/commit.h"
#include "netproxy/services/nft/adopt.h"
#include "netproxy/services/nft/affinity.h"

namespace holdfast::netproxy::nft {
namespace {

// A batch holds the kernel's netfilter lock: about 6 ms for so many elements.
constexpr size_t kElementsPerBatch = 8192;

// Those whose elements come from us and not from rules.
bool HoldsOurs(const std::string& set) {
  return !set.starts_with("__") && !set.starts_with("affinity-");
}

bool HasFamily(const std::vector<Cidr>& cidrs, bool v6) {
  return std::any_of(cidrs.begin(), cidrs.end(),
                     [v6](const Cidr& cidr) { return cidr.network.v6 == v6; });
}

}  // namespace

NftServices::NftServices(std::string table_name, sys::NfSocket socket)
    : table_name_(std::move(table_name)), socket_(std::move(socket)) {
  Forget();
}

void NftServices::Forget() {
  settings_.reset();
  families_ = {};
  families_[1].family = Family::kIp6;
  for (FamilyState& state : families_) {
    state.layout.family = state.family;
    state.layout.table = table_name_;
  }
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

bool NftServices::IsWanted(const FamilyState& state) const {
  return !state.book.entries().empty() ||
         HasFamily(settings_->service_cidrs, state.family == Family::kIp6);
}

// --- A complete change ---

Result<ServiceApplied> NftServices::ApplyAll(const model::ServiceChange& change) {
  settings_ = change.settings;
  std::vector<Step> steps;
  for (const model::ServicePortRowPtr& row : change.rows) steps.push_back({row->key, row});
  RETURN_IF_ERROR(StartBooks(steps));
  ServiceApplied out;
  auto done = SynchronizeAll();
  if (!done) {
    ASSIGN_OR_RETURN(out.refused, FindRefused(steps));
    if (out.refused.empty()) return std::move(done.error());
    for (const RefusedServicePort& refused : out.refused) {
      ServiceBook::Delta ignored;
      StateOf(refused.key.v6).book.Swap(refused.key.name, std::nullopt, ignored);
    }
    ASSIGN_OR_RETURN(const uint64_t differences, SynchronizeAll());
    (void)differences;  // a load, not a repair
  }
  return out;
}

// New books with all steps; slots as they are, in the old books or else in the kernel.
Result<void> NftServices::StartBooks(const std::vector<Step>& steps) {
  for (FamilyState& state : families_) {
    ServiceBook before = std::exchange(state.book, ServiceBook());
    SlotReader slots;
    if (before.entries().empty()) {
      ASSIGN_OR_RETURN(slots, SlotReader::Read(socket_, state.family, table_name_));
    }
    ServiceBook::Delta ignored;
    for (const Step& step : steps) {
      if (step.key.v6 != (state.family == Family::kIp6)) continue;
      state.book.Swap(step.key.name,
                      before.entries().empty() ? slots.Entry(step.row) : before.Next(step.row),
                      ignored);
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
  ASSIGN_OR_RETURN(out.refused, FindRefused(steps));
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
    FamilyState& state = StateOf(step.key.v6);
    std::optional<ServiceEntry> next;
    if (step.row) next = state.book.Next(step.row);
    undo.push_back(
        {step.key, state.book.Swap(step.key.name, std::move(next), deltas[step.key.v6 ? 1 : 0])});
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
  for (size_t i = 0; i < families_.size(); ++i) {
    FamilyState& state = families_[i];
    load |= IsWanted(state) != state.present;
    if (!state.present) continue;
    if (state.book.NeedsNewLayout() || relayout_) {
      layouts[i] = state.layout;
      layouts[i]->sizes = state.book.TakeLayout(/*tidy=*/true);
      transaction.Append(Change(state, *layouts[i], deltas[i], previous));
    } else {
      transaction.Append(ChangeElements(state.layout, deltas[i]));
    }
  }
  auto done = Commit(socket_, transaction);
  if (!done) {
    Deltas ignored;
    for (auto it = undo.rbegin(); it != undo.rend(); ++it) {
      StateOf(it->key.v6)
          .book.Swap(it->key.name, std::move(it->entry), ignored[it->key.v6 ? 1 : 0]);
    }
    return done;
  }
  relayout_ = false;
  for (size_t i = 0; i < families_.size(); ++i) {
    if (layouts[i]) families_[i].layout = std::move(*layouts[i]);
  }
  if (load) {
    auto loaded = SynchronizeAll();
    if (!loaded) return std::move(loaded.error());
  }
  for (const Undo& step : undo) {
    if (step.entry) RETURN_IF_ERROR(ForgetClients(StateOf(step.key.v6), *step.entry));
  }
  return {};
}

// Clients of an endpoint that went choose again.
Result<void> NftServices::ForgetClients(const FamilyState& state, const ServiceEntry& before) {
  if (before.row->affinity.count() == 0) return {};
  const ServiceEntry* now = state.book.Find(before.row->key.name);
  if (now == nullptr || now->row->affinity.count() == 0) return {};  // the maps went too
  for (const auto list : {model::EndpointList::kCluster, model::EndpointList::kLocal}) {
    const SetId members = MembersOf(*now->row, list);
    if (!state.layout.sizes.contains(members)) continue;
    const auto& had = EndpointsOf(*before.row, list);
    const auto& has = EndpointsOf(*now->row, list);
    if (std::includes(has.begin(), has.end(), had.begin(), had.end())) continue;
    ASSIGN_OR_RETURN(const size_t purged,
                     PurgeAffinity(socket_, state.family, table_name_, members, has));
    (void)purged;
  }
  return {};
}

// Packets choose endpoints without a transaction.
Result<uint64_t> NftServices::ForgetAllStaleClients() {
  uint64_t all = 0;
  for (const FamilyState& state : families_) {
    if (!state.present) continue;
    ASSIGN_OR_RETURN(const uint64_t purged, ForgetAllStaleClients(state));
    all += purged;
  }
  return all;
}

// The same for all, whatever happened while nobody looked.
Result<uint64_t> NftServices::ForgetAllStaleClients(const FamilyState& state) {
  uint64_t all = 0;
  for (const auto& [members, size] : state.layout.sizes) {
    if (members.kind != SetId::Kind::kMembers) continue;
    const ServiceEntry* entry = state.book.Find(members.service);
    if (entry == nullptr) continue;
    const auto list =
        members.count == 0 ? model::EndpointList::kCluster : model::EndpointList::kLocal;
    ASSIGN_OR_RETURN(const size_t purged, PurgeAffinity(socket_, state.family, table_name_, members,
                                                        EndpointsOf(*entry->row, list)));
    all += purged;
  }
  return all;
}

// From the layout that the kernel has to `next`.
Transaction NftServices::Change(const FamilyState& state, const ServiceLayout& next,
                                const ServiceBook::Delta& delta,
                                const model::ServiceSettings& previous) const {
  const Table wanted = BuildServiceTable(next, *settings_);
  const Existing existing = ExistingOf(BuildServiceTable(state.layout, previous), wanted);
  const bool grown = std::any_of(next.sizes.begin(), next.sizes.end(), [&](const auto& set) {
    const auto before = state.layout.sizes.find(set.first);
    return before != state.layout.sizes.end() && before->second != set.second;
  });
  // All that a new set holds is new; only one that is made again needs what it had.
  ElementsBySet all;
  if (grown) {
    all = state.book.AllElements();
  } else {
    for (const SetElement& e : delta.added) all[e.set].push_back(e.element);
  }
  return ChangeLayout({existing, wanted, next, all, delta});
}

// --- What the kernel has ---

Result<uint64_t> NftServices::SynchronizeAll() {
  uint64_t differences = 0;
  for (FamilyState& state : families_) {
    ASSIGN_OR_RETURN(const uint64_t found, Synchronize(state));
    differences += found;
  }
  relayout_ = false;
  return differences;
}

Result<uint64_t> NftServices::Synchronize(FamilyState& state) {
  if (!IsWanted(state)) {
    ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket_, state.family, table_name_));
    if (there) RETURN_IF_ERROR(Commit(socket_, nft::Remove(state.family, table_name_)));
    state.present = false;
    return there ? 1 : 0;
  }
  ASSIGN_OR_RETURN(const std::optional<Observed> observed,
                   Observe(socket_, state.family, table_name_, HoldsOurs));
  state.present = false;
  if (observed) {
    for (const auto& [id, usage] : std::map(state.book.sets())) {
      const auto seen = observed->sets.find(NameOf(id));
      if (seen != observed->sets.end()) state.book.Adopt(id, seen->second.shape.size);
    }
  }
  state.layout.sizes = state.book.TakeLayout(/*tidy=*/false);
  const Table wanted = BuildServiceTable(state.layout, *settings_);
  const ElementsBySet all = state.book.AllElements();
  uint64_t differences = 1;
  if (!observed) {
    RETURN_IF_ERROR(Load(state, wanted, all));
  } else {
    const ServiceBook::Delta delta = Compare(*observed, state.layout, all);
    const bool same = SameLayout(*observed, wanted);
    differences = delta.gone.size() + delta.added.size() + (same ? 0 : 1);
    RETURN_IF_ERROR(Commit(socket_, same ? ChangeElements(state.layout, delta)
                                         : ChangeLayout({ExistingOf(*observed, wanted), wanted,
                                                         state.layout, all, delta})));
  }
  state.present = true;
  ASSIGN_OR_RETURN(const uint64_t stale, ForgetAllStaleClients(state));
  return differences + stale;
}

Result<void> NftServices::Load(FamilyState& state, const Table& wanted, const ElementsBySet& all) {
  for (const Transaction& part : LoadInParts(wanted, state.layout, all, kElementsPerBatch)) {
    RETURN_IF_ERROR(Commit(socket_, part));
    HOLDFAST_PAUSE_POINT("nft.services.load");
  }
  return {};
}

// --- Rows that the kernel does not take ---

Result<void> NftServices::TryOut(const std::vector<const Step*>& steps) {
  const std::string table = table_name_ + "-try";
  std::array<ServiceBook, 2> books;
  for (const Step* step : steps) {
    ServiceBook::Delta ignored;
    ServiceBook& book = books[step->key.v6 ? 1 : 0];
    if (step->row) book.Swap(step->key.name, book.Next(step->row), ignored);
  }
  Transaction transaction;
  for (size_t i = 0; i < books.size(); ++i) {
    if (books[i].entries().empty()) continue;
    ServiceLayout layout{families_[i].family, table, books[i].TakeLayout(false)};
    transaction.Append(nft::Remove(layout.family, table));
    Table hidden = BuildServiceTable(layout, *settings_);
    std::erase_if(hidden.chains, [](const Chain& chain) { return chain.hook.has_value(); });
    for (Transaction& part : LoadInParts(hidden, layout, books[i].AllElements(), SIZE_MAX)) {
      transaction.Append(std::move(part));
    }
    transaction.Append(nft::Remove(layout.family, table));
  }
  return Commit(socket_, transaction);
}

Result<std::vector<RefusedServicePort>> NftServices::FindRefused(const std::vector<Step>& steps) {
  std::vector<RefusedServicePort> refused;
  std::vector<const Step*> accepted;
  // Takes [begin, end) into `accepted` as far as the kernel takes it beside what is there already.
  const std::function<void(size_t, size_t)> look = [&](size_t begin, size_t end) {
    const size_t before = accepted.size();
    for (size_t i = begin; i < end; ++i) accepted.push_back(&steps[i]);
    const auto tried = TryOut(accepted);
    if (tried) return;
    accepted.resize(before);
    if (end - begin == 1) {
      refused.push_back({steps[begin].key, tried.error().message()});
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    look(begin, middle);
    look(middle, end);
  };
  if (!steps.empty()) look(0, steps.size());
  return refused;
}

// --- The rest ---

Result<uint64_t> NftServices::Repair() {
  if (!settings_) return InvalidArgument("nft services: nothing was applied yet");
  // Before what is compared: a change meanwhile has the next one look again.
  ASSIGN_OR_RETURN(const uint32_t generation, Generation(socket_));
  if (compared_ == generation) return ForgetAllStaleClients();
  ASSIGN_OR_RETURN(const uint64_t differences, SynchronizeAll());
  if (differences == 0) compared_ = generation;
  return differences;
}

Result<bool> NftServices::Remove() {
  Forget();
  Transaction change;
  bool any = false;
  for (const FamilyState& state : families_) {
    ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket_, state.family, table_name_));
    if (there) change.Append(nft::Remove(state.family, table_name_));
    any |= there;
  }
  RETURN_IF_ERROR(Commit(socket_, change));
  return any;
}

Result<std::string> NftServices::Dump() {
  std::string out;
  for (const FamilyState& state : families_) {
    if (!state.present) continue;
    const Table wanted = BuildServiceTable(state.layout, *settings_);
    out += nft::Remove(state.family, table_name_).ToString();
    for (const Transaction& part :
         LoadInParts(wanted, state.layout, state.book.AllElements(), SIZE_MAX)) {
      out += part.ToString();
    }
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
