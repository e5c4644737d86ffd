// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/rules/back_end.h"

#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"
#include "netproxy/podnet/rules/compile.h"

namespace holdfast::netproxy::nft {

Result<PodRulesBackEnd> PodRulesBackEnd::Open(const std::string& table_name) {
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  return PodRulesBackEnd(table_name, std::move(socket));
}

Result<void> PodRulesBackEnd::Apply(const model::ProxyTable& table) {
  if (applied_) {
    if (*applied_ == table) return {};
    auto done = Commit(socket_, Compile(table, &*applied_, table_name_));
    if (done) {
      applied_ = table;
      return {};
    }
    applied_.reset();
  }
  auto ensured = Ensure(table);
  if (!ensured) return std::move(ensured.error());
  return {};
}

Result<Transaction> PodRulesBackEnd::Missing(const model::ProxyTable& table) {
  Transaction change;
  bool has_family[2] = {false, false};
  for (const Table& wanted : Build(table, table_name_)) {
    has_family[wanted.family == Family::kIp6] = true;
    ASSIGN_OR_RETURN(const bool same, KernelHas(socket_, wanted));
    if (!same) change.Append(Replace(wanted));
  }
  for (Family family : {Family::kIp, Family::kIp6}) {
    if (has_family[family == Family::kIp6]) continue;
    ASSIGN_OR_RETURN(const bool stale, KernelHasTable(socket_, family, table_name_));
    if (stale) change.Append(nft::Remove(family, table_name_));
  }
  return change;
}

Result<bool> PodRulesBackEnd::Ensure(const model::ProxyTable& table) {
  applied_.reset();
  ASSIGN_OR_RETURN(const Transaction change, Missing(table));
  RETURN_IF_ERROR(Commit(socket_, change));
  applied_ = table;
  return !change.empty();
}

Result<void> PodRulesBackEnd::Remove() {
  applied_.reset();
  Transaction change;
  for (Family family : {Family::kIp, Family::kIp6}) {
    ASSIGN_OR_RETURN(const bool present, KernelHasTable(socket_, family, table_name_));
    if (present) change.Append(nft::Remove(family, table_name_));
  }
  return Commit(socket_, change);
}

}  // namespace holdfast::netproxy::nft
