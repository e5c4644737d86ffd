// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/observe.h"

// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

constexpr int kAttempts = 10;  // of a dump that changes of others disturb

// Only the request's own filter attributes are put by `fill`.
class Dumper {
 public:
  Dumper(sys::NfSocket& socket, Family family) : socket_(socket), family_(family) {}

  Result<void> Run(uint16_t type, const std::function<void(nlmsghdr*)>& fill,
                   const std::function<void(const nlmsghdr*)>& each) {
    std::vector<char> buffer(4096);
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

template <class F>
auto Persistently(const F& read) -> decltype(read()) {
  for (int attempt = 1;; ++attempt) {
    auto got = read();
    if (got || got.error().code() != Code::kUnavailable || attempt == kAttempts) return got;
  }
}

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

// The kernel fills in what we left out: of these two only what we set is looked at.
std::string OurPartOf(const nftnl_expr* e, std::string_view name) {
  const auto number = [e](uint16_t attribute) {
    return ::nftnl_expr_is_set(e, attribute) ? StrCat(::nftnl_expr_get_u32(e, attribute), " ")
                                             : std::string("- ");
  };
  if (name == "lookup") {
    return StrCat(number(NFTNL_EXPR_LOOKUP_SREG), number(NFTNL_EXPR_LOOKUP_DREG),
                  ::nftnl_expr_get_str(e, NFTNL_EXPR_LOOKUP_SET));
  }
  return StrCat(number(NFTNL_EXPR_NAT_TYPE), number(NFTNL_EXPR_NAT_FAMILY),
                number(NFTNL_EXPR_NAT_REG_ADDR_MIN), number(NFTNL_EXPR_NAT_REG_PROTO_MIN));
}

std::string TextOf(const nftnl_expr* e) {
  const std::string_view name = ::nftnl_expr_get_str(e, NFTNL_EXPR_NAME);
  if (name == "lookup" || name == "nat") return StrCat("[", name, " ", OurPartOf(e, name), "]");
  char text[512];
  const int n = ::nftnl_expr_snprintf(text, sizeof text, e, NFTNL_OUTPUT_DEFAULT, 0);
  const size_t size = n < 0 ? 0 : std::min<size_t>(static_cast<size_t>(n), sizeof text - 1);
  return StrCat("[", name, " ", std::string_view(text, size), "]");
}

void AppendExpressionTexts(nftnl_rule* rule, std::string& out) {
  ::nftnl_expr_foreach(
      rule,
      [](nftnl_expr* expression, void* to) {
        *static_cast<std::string*>(to) += TextOf(expression);
        return 0;
      },
      &out);
}

std::optional<Hook> HookOf(const nftnl_chain* chain) {
  if (!::nftnl_chain_is_set(chain, NFTNL_CHAIN_HOOKNUM)) return std::nullopt;
  static constexpr std::pair<uint32_t, Hook::Point> kPoints[] = {
      {NF_INET_PRE_ROUTING, Hook::Point::kPrerouting},
      {NF_INET_LOCAL_IN, Hook::Point::kInput},
      {NF_INET_LOCAL_OUT, Hook::Point::kOutput},
      {NF_INET_POST_ROUTING, Hook::Point::kPostrouting}};
  Hook hook;
  const char* type = ::nftnl_chain_get_str(chain, NFTNL_CHAIN_TYPE);
  hook.type =
      type != nullptr && std::string_view(type) == "nat" ? Hook::Type::kNat : Hook::Type::kFilter;
  hook.priority = ::nftnl_chain_get_s32(chain, NFTNL_CHAIN_PRIO);
  for (const auto& [number, point] : kPoints) {
    if (number == ::nftnl_chain_get_u32(chain, NFTNL_CHAIN_HOOKNUM)) hook.point = point;
  }
  return hook;
}

Result<void> ReadChains(Dumper& dumper, const std::string& table, Observed& out) {
  return dumper.Run(
      NFT_MSG_GETCHAIN, [](nlmsghdr*) {},
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_chain> chain(::nftnl_chain_alloc());
        if (::nftnl_chain_nlmsg_parse(answer, chain.get()) < 0) return;
        if (table != ::nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_TABLE)) return;
        out.chains[::nftnl_chain_get_str(chain.get(), NFTNL_CHAIN_NAME)].hook = HookOf(chain.get());
      });
}

Result<void> ReadRules(Dumper& dumper, const std::string& table, Observed& out) {
  return dumper.Run(
      NFT_MSG_GETRULE,
      [&](nlmsghdr* header) { ::mnl_attr_put_strz(header, NFTA_RULE_TABLE, table.c_str()); },
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_rule> rule(::nftnl_rule_alloc());
        if (::nftnl_rule_nlmsg_parse(answer, rule.get()) < 0) return;
        if (table != ::nftnl_rule_get_str(rule.get(), NFTNL_RULE_TABLE)) return;
        std::string text = CommentOf(rule.get());
        AppendExpressionTexts(rule.get(), text);
        out.chains[::nftnl_rule_get_str(rule.get(), NFTNL_RULE_CHAIN)].rules.push_back(
            std::move(text));
      });
}

Result<void> ReadSets(Dumper& dumper, const std::string& table, Observed& out) {
  return dumper.Run(
      NFT_MSG_GETSET,
      [&](nlmsghdr* header) { ::mnl_attr_put_strz(header, NFTA_SET_TABLE, table.c_str()); },
      [&](const nlmsghdr* answer) {
        NftnlPtr<nftnl_set> set(::nftnl_set_alloc());
        if (::nftnl_set_nlmsg_parse(answer, set.get()) < 0) return;
        if (table != ::nftnl_set_get_str(set.get(), NFTNL_SET_TABLE)) return;
        SetShape& shape = out.sets[::nftnl_set_get_str(set.get(), NFTNL_SET_NAME)].shape;
        shape.key_type = ::nftnl_set_get_u32(set.get(), NFTNL_SET_KEY_TYPE);
        if (::nftnl_set_is_set(set.get(), NFTNL_SET_DATA_TYPE))
          shape.data_type = ::nftnl_set_get_u32(set.get(), NFTNL_SET_DATA_TYPE);
        if (::nftnl_set_is_set(set.get(), NFTNL_SET_DESC_SIZE))
          shape.size = ::nftnl_set_get_u32(set.get(), NFTNL_SET_DESC_SIZE);
        if (::nftnl_set_is_set(set.get(), NFTNL_SET_TIMEOUT))
          shape.timeout_ms = ::nftnl_set_get_u64(set.get(), NFTNL_SET_TIMEOUT);
      });
}

// Calls `each` with type and payload of every attribute in `bytes`.
template <class F>
void ForEachAttribute(std::string_view bytes, const F& each) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > bytes.size()) return;
    each(head.nla_type & NLA_TYPE_MASK, bytes.substr(sizeof head, head.nla_len - sizeof head));
    bytes.remove_prefix(std::min<size_t>(NLA_ALIGN(head.nla_len), bytes.size()));
  }
}

// The payload of the first attribute of `type`; empty when there is none.
std::string_view Within(std::string_view bytes, int type) {
  std::string_view out;
  ForEachAttribute(bytes, [&](int t, std::string_view payload) {
    if (t == type && out.empty()) out = payload;
  });
  return out;
}

Element ParseElement(std::string_view one) {
  Element element;
  element.key = Within(Within(one, NFTA_SET_ELEM_KEY), NFTA_DATA_VALUE);
  const std::string_view data = Within(one, NFTA_SET_ELEM_DATA);
  element.value = Within(data, NFTA_DATA_VALUE);
  element.chain = Within(Within(data, NFTA_DATA_VERDICT), NFTA_VERDICT_CHAIN);
  if (!element.chain.empty()) element.chain.pop_back();  // the closing zero
  return element;
}

Result<std::vector<Element>> ReadElements(Dumper& dumper, const std::string& table,
                                          const std::string& name) {
  std::vector<Element> out;
  RETURN_IF_ERROR(dumper.Run(
      NFT_MSG_GETSETELEM,
      [&](nlmsghdr* header) {
        ::mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, table.c_str());
        ::mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_SET, name.c_str());
      },
      [&](const nlmsghdr* answer) {
        const std::string_view message(
            static_cast<const char*>(::mnl_nlmsg_get_payload_offset(answer, sizeof(nfgenmsg))),
            ::mnl_nlmsg_get_payload_len(answer) - MNL_ALIGN(sizeof(nfgenmsg)));
        ForEachAttribute(Within(message, NFTA_SET_ELEM_LIST_ELEMENTS),
                         [&](int, std::string_view one) { out.push_back(ParseElement(one)); });
      }));
  return out;
}

Result<Observed> ReadTable(Dumper& dumper, const std::string& name,
                           const std::function<bool(const std::string&)>& with_elements) {
  Observed out;
  RETURN_IF_ERROR(ReadChains(dumper, name, out));
  RETURN_IF_ERROR(ReadRules(dumper, name, out));
  RETURN_IF_ERROR(ReadSets(dumper, name, out));
  for (auto& [set, observed] : out.sets) {
    if (!with_elements(set)) continue;
    ASSIGN_OR_RETURN(observed.elements, ReadElements(dumper, name, set));
  }
  return out;
}

bool SameElements(const Set& wanted, const ObservedSet& observed) {
  if (observed.elements.size() != wanted.elements.size()) return false;
  for (const Element& element : observed.elements) {
    const auto it = wanted.elements.find(std::string(element.key.view()));
    if (it == wanted.elements.end() || it->second != element.value.view()) return false;
  }
  return true;
}

}  // namespace

std::string RuleText(Family family, const Rule& wanted) {
  NftnlPtr<nftnl_rule> rule(::nftnl_rule_alloc());
  for (const Statement& s : wanted.statements) AppendExpressions(rule.get(), family, s);
  std::string text = wanted.comment;
  AppendExpressionTexts(rule.get(), text);
  return text;
}

Result<std::optional<Observed>> Observe(
    sys::NfSocket& socket, Family family, const std::string& name,
    const std::function<bool(const std::string& set)>& with_elements) {
  ASSIGN_OR_RETURN(const bool present, KernelHasTable(socket, family, name));
  if (!present) return std::nullopt;
  Dumper dumper(socket, family);
  ASSIGN_OR_RETURN(Observed observed,
                   Persistently([&] { return ReadTable(dumper, name, with_elements); }));
  return observed;
}

Result<std::vector<Element>> ObserveElements(sys::NfSocket& socket, Family family,
                                             const std::string& table, const std::string& set) {
  Dumper dumper(socket, family);
  return Persistently([&] { return ReadElements(dumper, table, set); });
}

Result<uint32_t> Generation(sys::NfSocket& socket) {
  std::array<char, 256> buffer{};
  const nlmsghdr* header =
      ::nftnl_nlmsg_build_hdr(buffer.data(), NFT_MSG_GETGEN, NFPROTO_UNSPEC, NLM_F_ACK, 1);
  std::optional<uint32_t> id;
  RETURN_IF_ERROR(socket.Dump(
      {buffer.data(), header->nlmsg_len}, [&id](const nlmsghdr* answer) -> Result<void> {
        const NftnlPtr<nftnl_gen> generation(::nftnl_gen_alloc());
        if (::nftnl_gen_nlmsg_parse(answer, generation.get()) < 0) {
          return Internal("nf_tables' generation: the answer cannot be read");
        }
        id = ::nftnl_gen_get_u32(generation.get(), NFTNL_GEN_ID);
        return {};
      }));
  if (!id) return Internal("nf_tables' generation: no answer from the kernel");
  return *id;
}

Result<bool> KernelHas(sys::NfSocket& socket, const Table& wanted) {
  const auto is_wanted = [&](const std::string& name) {
    return std::any_of(wanted.sets.begin(), wanted.sets.end(),
                       [&](const Set& set) { return set.name == name; });
  };
  ASSIGN_OR_RETURN(const std::optional<Observed> observed,
                   Observe(socket, wanted.family, wanted.name, is_wanted));
  if (!observed || observed->chains.size() != wanted.chains.size()) return false;
  for (const Chain& chain : wanted.chains) {
    const auto found = observed->chains.find(chain.name);
    if (found == observed->chains.end()) return false;
    std::vector<std::string> rules;
    for (const Rule& rule : chain.rules) rules.push_back(RuleText(wanted.family, rule));
    if (found->second.rules != rules) return false;
  }
  for (const Set& set : wanted.sets) {
    const auto found = observed->sets.find(set.name);
    if (found == observed->sets.end() || !SameElements(set, found->second)) return false;
  }
  return true;
}

Result<bool> KernelHasTable(sys::NfSocket& socket, Family family, const std::string& name) {
  return Persistently([&]() -> Result<bool> {
    bool found = false;
    RETURN_IF_ERROR(Dumper(socket, family)
                        .Run(
                            NFT_MSG_GETTABLE, [](nlmsghdr*) {},
                            [&](const nlmsghdr* answer) {
                              NftnlPtr<nftnl_table> table(::nftnl_table_alloc());
                              if (::nftnl_table_nlmsg_parse(answer, table.get()) < 0) return;
                              found |= name == ::nftnl_table_get_str(table.get(), NFTNL_TABLE_NAME);
                            }));
    return found;
  });
}

}  // namespace holdfast::netproxy::nft
