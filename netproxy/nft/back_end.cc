// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/back_end.h"

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/compile.h"
#include "netproxy/nft/encode.h"

namespace holdfast::netproxy::nft {

Result<NftBackEnd> NftBackEnd::Open(const std::string& table_name) {
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  return NftBackEnd(table_name, std::move(socket));
}

Result<void> NftBackEnd::Commit(const Transaction& transaction) {
  if (transaction.empty()) return {};
  HOLDFAST_PAUSE_POINT("nft.commit.before");
  ASSIGN_OR_RETURN(const auto refusal, socket_.Commit(EncodeBatch(transaction)));
  HOLDFAST_PAUSE_POINT("nft.commit.after");
  if (!refusal) return {};
  const size_t index = refusal->sequence;
  const std::string what = index >= 1 && index <= transaction.operations.size()
                               ? ToString(transaction.operations[index - 1])
                               : StrCat("commit ", transaction.operations.size(), " changes");
  return Error::FromErrno(refusal->sys_errno, StrCat("nft: ", what));
}

Result<void> NftBackEnd::Apply(const model::ProxyTable& table) {
  if (applied_) {
    if (*applied_ == table) return {};
    auto done = Commit(Compile(table, &*applied_, table_name_));
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

Result<Transaction> NftBackEnd::Missing(const model::ProxyTable& table) {
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

Result<bool> NftBackEnd::Ensure(const model::ProxyTable& table) {
  applied_.reset();
  ASSIGN_OR_RETURN(const Transaction change, Missing(table));
  RETURN_IF_ERROR(Commit(change));
  applied_ = table;
  return !change.empty();
}

Result<void> NftBackEnd::Remove() {
  applied_.reset();
  Transaction change;
  for (Family family : {Family::kIp, Family::kIp6}) {
    ASSIGN_OR_RETURN(const bool present, KernelHasTable(socket_, family, table_name_));
    if (present) change.Append(nft::Remove(family, table_name_));
  }
  return Commit(change);
}

}  // namespace holdfast::netproxy::nft
