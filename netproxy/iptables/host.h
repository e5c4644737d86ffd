// SPDX-License-Identifier: Apache-2.0
// XtablesHost: what the back end does to a machine. ProcessHost runs iptables-restore and
// iptables-save in the calling thread's network namespace; tests have a model of the kernel.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::netproxy::iptables {

class XtablesHost {
 public:
  virtual ~XtablesHost() = default;

  // All tables that are there, as iptables-save prints them.
  virtual Result<std::string> Save(bool v6) = 0;
  // --noflush; a table is taken whole or not at all. kInvalidArgument when the program or the
  // kernel refuses the text, another code when it cannot be said whether they would.
  virtual Result<void> Restore(bool v6, const std::string& text) = 0;
  // The same in an empty network namespace, which is gone afterwards.
  virtual Result<void> Try(bool v6, const std::string& text) = 0;

  virtual Result<std::string> ReadSysctl(const std::string& name) = 0;
  virtual Result<void> WriteSysctl(const std::string& name, std::string_view value) = 0;
};

// The programs of one kind of xtables, by name or path.
struct Programs {
  std::string name;        // "nft", "legacy", "" where there is only one
  std::string restore[2];  // IPv4, IPv6; "" where it is not installed
  std::string save[2];
};

// Those that $PATH has: iptables-nft-… and iptables-legacy-…, or plain iptables-… without these.
std::vector<Programs> FindPrograms();

// Which of them the rest of the node uses, as kube-proxy's image decides it: the one in whose
// mangle table kubelet left KUBE-IPTABLES-HINT or KUBE-KUBELET-CANARY, else the one with more
// rules; nft when nothing tells.
Result<Programs> ChoosePrograms();

std::unique_ptr<XtablesHost> NewProcessHost(Programs programs);

}  // namespace holdfast::netproxy::iptables
