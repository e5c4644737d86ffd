// SPDX-License-Identifier: Apache-2.0
// libnftnl's objects with an owner. For .cc files of this folder.
#pragma once

#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/gen.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {

struct NftnlDeleter {
  void operator()(nftnl_table* p) const { ::nftnl_table_free(p); }
  void operator()(nftnl_chain* p) const { ::nftnl_chain_free(p); }
  void operator()(nftnl_rule* p) const { ::nftnl_rule_free(p); }
  void operator()(nftnl_set* p) const { ::nftnl_set_free(p); }
  void operator()(nftnl_gen* p) const { ::nftnl_gen_free(p); }
  void operator()(nftnl_udata_buf* p) const { ::nftnl_udata_buf_free(p); }
};
template <class T>
using NftnlPtr = std::unique_ptr<T, NftnlDeleter>;

// NFPROTO_* of a family.
uint16_t ProtocolFamily(Family family);

// What nft needs to print a set whose key holds a random number.
NftnlPtr<nftnl_udata_buf> TypeofUserData(Family family, const Set& set);
// Such a set.
bool NeedsTypeof(const Set& set);

// Appends the kernel's expressions of one statement.
void AppendExpressions(nftnl_rule* rule, Family family, const Statement& statement);

}  // namespace holdfast::netproxy::nft
