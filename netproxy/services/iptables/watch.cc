// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/watch.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <utility>

#include "netproxy/nft/watch.h"
#include "netproxy/services/iptables/legacy_watch.h"
#include "netproxy/services/iptables/names.h"

namespace holdfast::netproxy::iptables {
namespace {

bool IsTableOfOurs(const nft::NftTouch& touch) {
  if (touch.family != NFPROTO_IPV4 && touch.family != NFPROTO_IPV6) return false;
  for (const Table table : kAllTables) {
    if (touch.table == ToString(table)) return true;
  }
  return false;
}

// A new rule outside our chains does them no harm: others may have as many as they like.
bool IsNews(const nft::NftTouch& touch) {
  if (!IsTableOfOurs(touch)) return false;
  switch (touch.message) {
    case NFT_MSG_DELTABLE:
      return true;
    case NFT_MSG_NEWCHAIN:
    case NFT_MSG_NEWRULE:
      return touch.chain.starts_with("KUBE-");
    case NFT_MSG_DELCHAIN:
    case NFT_MSG_DELRULE:
      return touch.chain.starts_with("KUBE-") || IsBuiltIn(touch.chain);
    default:
      return false;
  }
}

// The programs' netlink sockets bear their process's number.
class NotifiedWatch : public IptablesWatch {
 public:
  explicit NotifiedWatch(nft::NftWatch watch) : watch_(std::move(watch)) {}

  int fd() const override { return watch_.fd(); }
  Result<bool> Drain() override { return watch_.Drain(); }

  // Should the filter not be had, our own changes are compared once more.
  void Reading(bool) override {}
  void Writing(bool, pid_t process) override {
    (void)watch_.HearAllBut(static_cast<uint32_t>(process));
  }
  void Written(bool) override { (void)watch_.HearAllBut(0); }

 private:
  nft::NftWatch watch_;
};

}  // namespace

Result<std::shared_ptr<IptablesWatch>> OpenWatch(const Programs& programs) {
  if (!programs.nf_tables) return OpenLegacyWatch();
  ASSIGN_OR_RETURN(nft::NftWatch watch, nft::NftWatch::Open(IsNews));
  return std::make_shared<NotifiedWatch>(std::move(watch));
}

}  // namespace holdfast::netproxy::iptables
