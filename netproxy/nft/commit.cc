// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/commit.h"

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/encode.h"

namespace holdfast::netproxy::nft {
namespace {

constexpr size_t kMaxText =
    300;  // of an operation in a message; one may hold thousands of elements

std::string Shortened(std::string text) {
  if (text.size() > kMaxText) text = text.substr(0, kMaxText) + " …";
  return text;
}

}  // namespace

Result<void> Commit(sys::NfSocket& socket, const Transaction& transaction) {
  if (transaction.empty()) return {};
  HOLDFAST_PAUSE_POINT("nft.commit.before");
  ASSIGN_OR_RETURN(const auto refusal, socket.Commit(EncodeBatch(transaction)));
  HOLDFAST_PAUSE_POINT("nft.commit.after");
  if (!refusal) return {};
  const size_t index = refusal->sequence;
  const std::string what = index >= 1 && index <= transaction.operations.size()
                               ? Shortened(ToString(transaction.operations[index - 1]))
                               : StrCat("commit ", transaction.operations.size(), " changes");
  return Error::FromErrno(refusal->sys_errno, StrCat("nft: ", what));
}

}  // namespace holdfast::netproxy::nft
