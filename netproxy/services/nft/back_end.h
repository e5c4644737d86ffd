// SPDX-License-Identifier: Apache-2.0
// NftServices: Services as nf_tables rules, in a table of our own per family. Bound to the network
// namespace of the thread that opened it. One thread at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/services/nft/family_table.h"

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
  FamilyTable& TableOf(bool v6) { return tables_[v6 ? 1 : 0]; }
  Result<ServiceApplied> ApplyAll(const model::ServiceChange& change);
  Result<ServiceApplied> ApplySome(const model::ServiceChange& change);
  Result<void> StartBooks(const std::vector<model::ServicePortRowPtr>& rows);
  std::vector<Undo> Enter(const std::vector<Step>& steps, Deltas& deltas);
  // Enters the steps into the books and sends them; on refusal the books are as before.
  Result<void> Send(const std::vector<Step>& steps, const model::ServiceSettings& previous);
  // Of both families; the number of differences.
  Result<uint64_t> SynchronizeAll();

  std::string table_name_;
  sys::NfSocket socket_;
  std::shared_ptr<const model::ServiceSettings> settings_;  // null: nothing was applied
  std::vector<FamilyTable> tables_;                         // of IPv4 and IPv6
  bool relayout_ = false;  // the settings changed: rules are to be written anew
  // Of the last comparison that found no difference: as long as it is the kernel's, there is none.
  std::optional<uint32_t> compared_;
};

}  // namespace holdfast::netproxy::nft
