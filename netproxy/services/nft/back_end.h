// SPDX-License-Identifier: Apache-2.0
// NftServices: Services as nf_tables rules, in a table of our own per family. Bound to the network
// namespace of the thread that opened it. One thread at a time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/services/nft/book.h"
#include "netproxy/services/nft/compile.h"

namespace holdfast::netproxy::nft {

class NftServices : public ServiceBackEnd {
 public:
  static Result<std::unique_ptr<NftServices>> Open(const std::string& table_name);

  Result<ServiceApplied> Apply(const model::ServiceChange& change) override;
  Result<uint64_t> Repair() override;
  Result<bool> Remove() override;
  // NftWatch does not report what this sender changes.
  uint32_t port() const { return socket_.port(); }
  // A file for `nft -f` that makes the tables as they are meant to be.
  Result<std::string> Dump() override;

 private:
  // What one family has and is meant to have.
  struct FamilyState {
    Family family = Family::kIp;
    ServiceBook book;
    ServiceLayout layout;  // of the kernel's table
    bool present = false;  // the kernel has the table, as far as we know
  };
  struct Step {
    model::ServicePortKey key;
    model::ServicePortRowPtr row;  // null: goes
  };

  struct Undo {
    model::ServicePortKey key;
    std::optional<ServiceEntry> entry;
  };
  using Deltas = std::array<ServiceBook::Delta, 2>;

  NftServices(std::string table_name, sys::NfSocket socket);
  void Forget();
  FamilyState& StateOf(bool v6) { return families_[v6 ? 1 : 0]; }
  bool IsWanted(const FamilyState& state) const;
  Result<ServiceApplied> ApplyAll(const model::ServiceChange& change);
  Result<ServiceApplied> ApplySome(const model::ServiceChange& change);
  Result<void> StartBooks(const std::vector<Step>& steps);
  std::vector<Undo> Enter(const std::vector<Step>& steps, Deltas& deltas);
  // Enters the steps into the books and sends them; on refusal the books are as before.
  Result<void> Send(const std::vector<Step>& steps, const model::ServiceSettings& previous);
  Transaction Change(const FamilyState& state, const ServiceLayout& next,
                     const ServiceBook::Delta& delta, const model::ServiceSettings& previous) const;
  // Reads the kernel and makes it what the books say; the number of differences.
  Result<uint64_t> SynchronizeAll();
  Result<uint64_t> Synchronize(FamilyState& state);
  Result<void> Load(FamilyState& state, const Table& wanted, const ElementsBySet& all);
  Result<void> ForgetClients(const FamilyState& state, const ServiceEntry& before);
  Result<uint64_t> ForgetAllStaleClients();
  Result<uint64_t> ForgetAllStaleClients(const FamilyState& state);
  // The rows that the kernel does not take, found by trying ever smaller parts of them in a table
  // that is gone before it could ever see a packet.
  Result<std::vector<RefusedServicePort>> FindRefused(const std::vector<Step>& steps);
  Result<void> TryOut(const std::vector<const Step*>& steps);

  std::string table_name_;
  sys::NfSocket socket_;
  std::shared_ptr<const model::ServiceSettings> settings_;  // null: nothing was applied
  std::array<FamilyState, 2> families_;
  bool relayout_ = false;  // the settings changed: rules are to be written anew
  // Of the last comparison that found no difference: as long as it is the kernel's, there is none.
  std::optional<uint32_t> compared_;
};

}  // namespace holdfast::netproxy::nft
