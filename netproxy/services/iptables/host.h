// SPDX-License-Identifier: Apache-2.0
// XtablesHost: what the back end does to a machine. ProcessHost runs iptables-restore and
// iptables-save in the calling thread's network namespace; tests have a model of the kernel.
#pragma once

#include <sys/types.h>

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
  bool nf_tables = false;  // the rules are nf_tables' rules
};

// Those that $PATH has: iptables-nft-… and iptables-legacy-…, or plain iptables-… without these.
std::vector<Programs> FindPrograms();

// Which of them the rest of the node uses, as kube-proxy's image decides it: the one in whose
// mangle table kubelet left KUBE-IPTABLES-HINT or KUBE-KUBELET-CANARY, else the one with more
// rules; nft when nothing tells.
Result<Programs> ChoosePrograms();

// Sees what a host does to the rules, so that it can tell others' changes from ours.
class RulesWitness {
 public:
  virtual ~RulesWitness() = default;
  virtual void Reading(bool v6) = 0;         // all of the family's rules are read next
  virtual void Writing(bool v6, pid_t) = 0;  // from here on what this process changes is ours
  virtual void Written(bool v6) = 0;         // it has ended
};

struct HostOptions {
  // A file that stays locked while a program of ours changes rules: one that outlives a killed
  // agent is waited for, so that it cannot undo what the next agent wrote. "": nobody is.
  std::string lock;
  std::shared_ptr<RulesWitness> witness;  // may be null
};

std::unique_ptr<XtablesHost> NewProcessHost(Programs programs, HostOptions options = {});

}  // namespace holdfast::netproxy::iptables
