// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/peers.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "netproxy/services/iptables/back_end.h"
#include "netproxy/services/iptables/host.h"
#include "tests/bench/measure.h"
#include "tests/bench/services/ipvs.h"
#include "tests/bench/services/loads.h"
#include "tests/bench/services/packets.h"

namespace holdfast::bench {
namespace {

using netproxy::iptables::XtablesHost;

// How long the program took since the last look.
struct Watch {
  double wall = 0;
  double processor = 0;
  void Reset() { *this = {}; }
};

// Our iptables back end writes the chains that kube-proxy would; what is timed is the program.
class TimedHost : public XtablesHost {
 public:
  TimedHost(std::unique_ptr<XtablesHost> host, Watch& watch)
      : host_(std::move(host)), watch_(watch) {}

  Result<std::string> Save(bool v6) override { return host_->Save(v6); }
  Result<void> Restore(bool v6, const std::string& text) override {
    const double processor = ProcessorMicroseconds();
    const auto start = Clock::now();
    auto done = host_->Restore(v6, text);
    if (!v6) watch_.wall += MicrosecondsSince(start);
    if (!v6) watch_.processor += ProcessorMicroseconds() - processor;
    return done;
  }
  Result<void> Try(bool v6, const std::string& text) override { return host_->Try(v6, text); }
  Result<std::string> ReadSysctl(const std::string& name) override {
    return host_->ReadSysctl(name);
  }
  Result<void> WriteSysctl(const std::string& name, std::string_view value) override {
    return host_->WriteSysctl(name, value);
  }

 private:
  const std::unique_ptr<XtablesHost> host_;
  Watch& watch_;
};

std::unique_ptr<XtablesHost> HostOf(const std::string& kind) {
  for (netproxy::iptables::Programs& programs : netproxy::iptables::FindPrograms()) {
    if (programs.name == kind) return netproxy::iptables::NewProcessHost(std::move(programs));
  }
  Die(StrCat("iptables-", kind, "-restore is not installed"));
}

std::string OutputOf(const std::string& command) {
  FILE* pipe = ::popen(StrCat(command, " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string out(256, '\0');
  out.resize(std::fread(out.data(), 1, out.size(), pipe));
  ::pclose(pipe);
  while (!out.empty() && out.back() <= ' ') out.pop_back();
  return out;
}

}  // namespace

void EnterFreshNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) Die("cannot make a network namespace");
}

void MeasureXtables(const XtablesPeer& peer, const Shape& shape, Report& report) {
  static const std::string version =
      OutputOf("iptables-nft --version | cut -dv -f2 | cut -d' ' -f1");
  const std::string name = StrCat("iptables-", peer.kind, "-restore ", version);
  const auto row = [&](const char* what) {
    return StrCat("services.nft.", what, ".", shape.name());
  };
  Watch watch;
  const auto open = [&]() -> std::unique_ptr<ServiceBackEnd> {
    return std::make_unique<netproxy::iptables::IptablesBackEnd>(
        std::make_unique<TimedHost>(HostOf(peer.kind), watch),
        std::vector<std::unique_ptr<XtablesHost>>());
  };
  if (shape.services <= peer.loads_up_to) {
    EnterFreshNetwork();
    Loads loads(shape, open);
    loads.LoadAll(1);
    report.Peer(row("load"), name, {watch.wall});
    report.Peer(row("load.cpu"), name, {watch.processor});
    const auto changes = [&](const auto& change) {
      Report::Samples out;
      for (int i = 0; i < 10; ++i) {
        watch.Reset();
        change();
        out.push_back(watch.wall);
      }
      return out;
    };
    report.Peer(row("replace"), name, changes([&] { loads.Edit(1, 0); }));
    report.Peer(row("service"), name, changes([&] { loads.AddServices(1); }));
  }
  if (shape.services <= peer.packets_up_to) {
    EnterFreshNetwork();
    const auto back_end = open();
    const Packets packets = MeasurePackets(shape, *back_end, 1000, 10);
    report.Peer(row("connect"), StrCat("iptables-", peer.kind), packets.connect);
    report.Peer(row("answer"), name, packets.change_to_answer);
  }
}

void MeasureIpvsadm(const Shape& shape, Report& report) {
  const std::string row = StrCat("services.nft.load.", shape.name());
  const double took = HasIpvs() ? LoadByIpvsadm(shape) : -1;
  if (took >= 0) {
    report.Peer(row, "ipvsadm -R", {took});
  } else {
    report.WithoutPeer(row, "ipvsadm -R", HasIpvs() ? "failed" : "kernel lacks IPVS");
  }
}

}  // namespace holdfast::bench
