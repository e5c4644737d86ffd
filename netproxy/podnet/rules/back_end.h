// SPDX-License-Identifier: Apache-2.0
// PodRulesBackEnd: keeps the kernel's rules equal to a ProxyTable, in tables of our own; no other table
// is read or written. Bound to the network namespace of the thread that opened it. One thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/model/proxy_table.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/transaction.h"

namespace holdfast::netproxy::nft {

class PodRulesBackEnd {
 public:
  static Result<PodRulesBackEnd> Open(const std::string& table_name);

  // Sends the change since the last Apply(); the first one, and one that the kernel refuses because
  // somebody changed our tables, goes through Ensure().
  Result<void> Apply(const model::ProxyTable& table);
  // Reads our tables and writes them anew where they differ. True when something was written.
  Result<bool> Ensure(const model::ProxyTable& table);
  // What Ensure() would write; empty when the kernel has all of it.
  Result<Transaction> Missing(const model::ProxyTable& table);
  // NftWatch does not report what this sender changes.
  uint32_t port() const { return socket_.port(); }
  // Our tables are gone afterwards, of both families.
  Result<void> Remove();

 private:
  PodRulesBackEnd(std::string table_name, sys::NfSocket socket)
      : table_name_(std::move(table_name)), socket_(std::move(socket)) {}

  std::string table_name_;
  sys::NfSocket socket_;
  std::optional<model::ProxyTable> applied_;  // what the kernel has, as far as we know
};

}  // namespace holdfast::netproxy::nft
