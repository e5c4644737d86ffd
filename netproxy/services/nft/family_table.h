// SPDX-License-Identifier: Apache-2.0
// FamilyTable: the Service table of one family: the book of what it is meant to hold, the layout that the kernel's has, and
// how the one comes to be the other. One thread.
#pragma once

#include <optional>
#include <string>

#include "holdfast/model/service_table.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/services/nft/book.h"
#include "netproxy/services/nft/compile.h"

namespace holdfast::netproxy::nft {

class FamilyTable {
 public:
  FamilyTable(Family family, std::string table_name);

  ServiceBook& book() { return book_; }
  Family family() const { return layout_.family; }
  bool IsV6() const { return family() == Family::kIp6; }
  // The kernel has the table, as far as we know.
  bool present() const { return present_; }
  // Whether it is to have it.
  bool IsWanted(const model::ServiceSettings& settings) const;

  // What turns the kernel's table of `before` into that of `settings` with `delta` of the book. With a layout where sets
  // grow or come, or `relayout` asks for one: it is the table's once the kernel has taken the transaction (NoteLayout).
  struct Change {
    Transaction transaction;
    std::optional<ServiceLayout> layout;
  };
  Change ChangeBy(const ServiceBook::Delta& delta, const model::ServiceSettings& before,
                  const model::ServiceSettings& settings, bool relayout);
  void NoteLayout(ServiceLayout layout) { layout_ = std::move(layout); }

  // Reads the kernel and makes it what the book says; the number of differences.
  Result<uint64_t> Synchronize(sys::NfSocket& socket, const model::ServiceSettings& settings);
  // Clients of an endpoint that went choose again: of one entry as it was, or of all, whatever happened while nobody looked.
  Result<void> ForgetClients(sys::NfSocket& socket, const ServiceEntry& before) const;
  Result<uint64_t> ForgetAllStaleClients(sys::NfSocket& socket) const;

  // For `nft -f`; "" when the kernel has none.
  std::string Dump(const model::ServiceSettings& settings) const;

 private:
  Transaction ChangeOfLayout(const ServiceLayout& next, const ServiceBook::Delta& delta,
                             const model::ServiceSettings& before,
                             const model::ServiceSettings& settings) const;
  Result<void> Load(sys::NfSocket& socket, const Table& wanted, const ElementsBySet& all) const;
  Result<size_t> Purge(sys::NfSocket& socket, const SetId& members,
                       const std::vector<model::Endpoint>& endpoints) const;

  ServiceBook book_;
  ServiceLayout layout_;  // of the kernel's table
  bool present_ = false;
};

}  // namespace holdfast::netproxy::nft
