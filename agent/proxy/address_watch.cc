// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/address_watch.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

bool Same(const netproxy::TableOptions& a, const netproxy::TableOptions& b) {
  return a.node_addresses == b.node_addresses && *a.settings == *b.settings;
}

std::string Text(const std::vector<IpAddress>& addresses) {
  std::string out;
  for (const IpAddress& address : addresses) {
    out += StrCat(out.empty() ? "" : ", ", address.ToString());
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<AddressWatch>> AddressWatch::Start(
    const model::Instance& instance, const ProxyConfig& config, netproxy::TableOptions known,
    Changed changed, std::function<void(const std::string& line)> log) {
  ASSIGN_OR_RETURN(sys::RtnlWatch watch, sys::RtnlWatch::Open());
  std::unique_ptr<AddressWatch> made(new AddressWatch(
      instance, config, std::move(known), std::move(watch), std::move(changed), std::move(log)));
  ASSIGN_OR_RETURN(made->thread_,
                   FdThread::Start(made->watch_.fd(), [w = made.get()] { return w->Look(); }));
  return made;
}

bool AddressWatch::Look() {
  const auto news = watch_.Drain();
  if (!news) {
    log_(StrCat("node addresses: ", news.error().message(), "; changes need a restart"));
    return false;
  }
  if (!*news) return true;
  auto options = ReadServiceOptions(instance_, config_);
  if (!options) {
    log_(StrCat("node addresses: ", options.error().message()));
    return true;
  }
  if (Same(options->table, known_)) return true;
  known_ = std::move(options->table);
  log_(StrCat("node addresses are now ", Text(known_.node_addresses)));
  changed_(known_);
  return true;
}

}  // namespace holdfast::agent
