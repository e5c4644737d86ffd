// SPDX-License-Identifier: Apache-2.0
// Reads our tables back from the kernel and compares them with what is wanted. Rules are told by
// their comments and their number of expressions: enough to see a flush, a deletion, an insertion.
// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <set>
#include <utility>

#include "netproxy/nft/back_end.h"
#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

constexpr int kAttempts = 5;  // of a dump that changes of others disturb

using RuleKey = std::pair<std::string, size_t>;  // comment, number of expressions
using Elements = std::map<std::string, std::string>;

// Only the request's own filter attributes are put by `fill`.
class Dumper {
 public:
  Dumper(sys::NfSocket& socket, Family family) : socket_(socket), family_(family) {}

  Result<void> Run(uint16_t type, const std::function<void(nlmsghdr*)>& fill,
                   const std::function<void(const nlmsghdr*)>& each) {
    std::vector<char> buffer(8192);
    nlmsghdr* header = ::nftnl_nlmsg_build_hdr(buffer.data(), type, ProtocolFamily(family_),
                                               NLM_F_DUMP, ++sequence_);
    fill(header);
    return socket_.Dump({buffer.data(), header->nlmsg_len},
                        [&](const nlmsghdr* answer) -> Result<void> {
                          each(answer);
                          return {};
                        });
  }

 private:
  sys::NfSocket& socket_;
  Family family_;
  uint32_t sequence_ = 0;
};

std::string CommentOf(const nftnl_rule* rule) {
  uint32_t size = 0;
  const void* data = ::nftnl_rule_get_data(rule, NFTNL_RULE_USERDATA, &size);
  std::string comment;
  if (data == nullptr) return comment;
  ::nftnl_udata_parse(
      data, size,
      [](const nftnl_udata* attribute, void* out) {
        if (::nftnl_udata_type(attribute) == NFTNL_UDATA_RULE_COMMENT &&
            ::nftnl_udata_len(attribute) > 0) {
          *static_cast<std::string*>(out) =
              std::string(static_cast<const char*>(::nftnl_udata_get(attribute)),
                          ::nftnl_udata_len(attribute) - 1u);
        }
        return 0;
      },
      &comment);
  return comment;
}

size_t ExpressionCount(nftnl_rule* rule) {
  size_t count = 0;
  ::nftnl_expr_foreach(
      rule,
      [](nftnl_expr*, void* out) {
        ++*static_cast<size_t*>(out);
        return 0;
      },
      &count);
  return count;
}

RuleKey KeyOf(Family family, const Rule& wanted) {
  NftnlPtr<nftnl_rule> rule(::nftnl_rule_alloc());
  for (const Statement& s : wanted.statements) AppendExpressions(rule.get(), family, s);
  return {wanted.comment, ExpressionCount(rule.get())};
}

Result<std::set<std::string>> ReadChains(Dumper& dumper, const std::string& table) {
  std::set<std::string> chains;
  RETURN_IF_ERROR(dumper.Run(
      NFT_MSG_GETCHAIN, [](nlmsghdr*) {},
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_chain> chain(::nftnl_chain_alloc());
        if (::nftnl_chain_nlmsg_parse(answer, chain.get()) < 0) return;
        if (table == ::nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE)) {
          chains.insert(::nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_NAME));
        }
      }));
  return chains;
}

Result<std::map<std::string, std::vector<RuleKey>>> ReadRules(Dumper& dumper,
                                                              const std::string& table) {
  std::map<std::string, std::vector<RuleKey>> rules;
  RETURN_IF_ERROR(dumper.Run(
      NFT_MSG_GETRULE,
      [&](nlmsghdr* header) { ::mnl_attr_put_strz(header, NFTA_RULE_TABLE, table.c_str()); },
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_rule> rule(::nftnl_rule_alloc());
        if (::nftnl_rule_nlmsg_parse(answer, rule.get()) < 0) return;
        if (table != ::nftnl_rule_get_str(rule.get(), NFTNL_RULE_TABLE)) return;
        rules[::nftnl_rule_get_str(rule.get(), NFTNL_RULE_CHAIN)].emplace_back(
            CommentOf(rule.get()), ExpressionCount(rule.get()));
      }));
  return rules;
}

std::string BytesOf(const nftnl_set_elem* element, uint16_t attribute) {
  uint32_t size = 0;
  const void* data = ::nftnl_set_elem_get(const_cast<nftnl_set_elem*>(element), attribute, &size);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

void CollectElements(nftnl_set* set, Elements& out) {
  ::nftnl_set_elem_foreach(
      set,
      [](nftnl_set_elem* element, void* all) {
        static_cast<Elements*>(all)->emplace(BytesOf(element, NFTNL_SET_ELEM_KEY),
                                             BytesOf(element, NFTNL_SET_ELEM_DATA));
        return 0;
      },
      &out);
}

Result<Elements> ReadElements(Dumper& dumper, const std::string& table, const std::string& name) {
  Elements out;
  RETURN_IF_ERROR(dumper.Run(
      NFT_MSG_GETSETELEM,
      [&](nlmsghdr* header) {
        ::mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table.c_str());
        ::mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, name.c_str());
      },
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_set> set(::nftnl_set_alloc());
        if (::nftnl_set_elems_nlmsg_parse(answer, set.get()) >= 0) CollectElements(set.get(), out);
      }));
  return out;
}

Result<bool> Compare(Dumper& dumper, const Table& wanted) {
  ASSIGN_OR_RETURN(const std::set<std::string> chains, ReadChains(dumper, wanted.name));
  ASSIGN_OR_RETURN(const auto rules, ReadRules(dumper, wanted.name));
  if (chains.size() != wanted.chains.size()) return false;
  for (const Chain& chain : wanted.chains) {
    if (!chains.contains(chain.name)) return false;
    std::vector<RuleKey> keys;
    for (const Rule& rule : chain.rules) keys.push_back(KeyOf(wanted.family, rule));
    const auto found = rules.find(chain.name);
    if ((found == rules.end() ? std::vector<RuleKey>() : found->second) != keys) return false;
  }
  for (const Set& set : wanted.sets) {
    auto elements = ReadElements(dumper, wanted.name, set.name);
    if (!elements && elements.error().code() == Code::kNotFound) return false;
    if (!elements) return std::move(elements.error());
    if (*elements != set.elements) return false;
  }
  return true;
}

}  // namespace

Result<bool> KernelHas(sys::NfSocket& socket, const Table& wanted) {
  ASSIGN_OR_RETURN(const bool present, KernelHasTable(socket, wanted.family, wanted.name));
  if (!present) return false;
  Dumper dumper(socket, wanted.family);
  for (int attempt = 1;; ++attempt) {
    auto same = Compare(dumper, wanted);
    if (same || same.error().code() != Code::kUnavailable || attempt == kAttempts) return same;
  }
}

Result<bool> KernelHasTable(sys::NfSocket& socket, Family family, const std::string& name) {
  for (int attempt = 1;; ++attempt) {
    bool found = false;
    auto read = Dumper(socket, family)
                    .Run(
                        NFT_MSG_GETTABLE, [](nlmsghdr*) {},
                        [&](const nlmsghdr* answer) {
                          NftnlPtr<nftnl_table> table(::nftnl_table_alloc());
                          if (::nftnl_table_nlmsg_parse(answer, table.get()) < 0) return;
                          found |= name == ::nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME);
                        });
    if (read) return found;
    if (read.error().code() != Code::kUnavailable || attempt == kAttempts)
      return std::move(read.error());
  }
}

}  // namespace holdfast::netproxy::nft
