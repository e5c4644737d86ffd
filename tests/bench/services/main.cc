// SPDX-License-Identifier: Apache-2.0
// bench_services [--json FILE] [--sizes N,N…] [--all|--ipvs]: what the nf_tables back end needs to bring
// Services into the kernel and what their clients notice, beside iptables-restore and ipvsadm with
// the same Services: everything at once, one endpoint replaced, added and removed, one service
// added, from the rows to the kernel's answer; connect() through a service; from a changed
// EndpointSlice to the new endpoint's first answer. Without --all only the shapes that tell
// something of their own. With --ipvs our IPVS back end beside ipvsadm instead (ipvs.h). Everything in network namespaces of
// its own.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "netproxy/services/nft/back_end.h"
#include "tests/bench/measure.h"
#include "tests/bench/services/ipvs.h"
#include "tests/bench/services/loads.h"
#include "tests/bench/services/packets.h"
#include "tests/bench/services/peers.h"
#include "tests/bench/services/report.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {
namespace {

constexpr size_t kChanges = 2000;
constexpr size_t kLoads = 5;
constexpr char kChangeAim[] = "15 p50, 150 p99";

std::unique_ptr<ServiceBackEnd> OpenNft() {
  return OrDie(netproxy::nft::NftServices::Open("holdfast-services"));
}

bool IsPlain(const Shape& shape) { return !shape.load_balancer && shape.endpoints == 2; }

void MeasureOurs(const Shape& shape, Report& report) {
  const auto row = [&](const char* what) {
    return StrCat("services.nft.", what, ".", shape.name());
  };
  EnterFreshNetwork();
  Loads loads(shape, OpenNft);
  const Loads::Load load = loads.LoadAll(kLoads);
  report.Ours(row("load"), "us", load.wall,
              IsPlain(shape) && shape.services == 10000 ? "60000 p50" : "");
  report.Ours(row("load.cpu"), "us", load.processor);
  report.Ours(row("memory"), "MB", load.memory);
  report.Ours(row("replace"), "us", loads.Edit(kChanges, 0), kChangeAim);
  report.Ours(row("add"), "us", loads.Edit(kChanges, 1), kChangeAim);
  report.Ours(row("remove"), "us", loads.Edit(kChanges, -1), kChangeAim);
  report.Ours(row("service"), "us", loads.AddServices(kChanges), kChangeAim);
  if (!IsPlain(shape)) return;
  EnterFreshNetwork();
  const auto back_end = OpenNft();
  const Packets packets = MeasurePackets(shape, *back_end, kChanges, kChanges);
  report.Ours(row("connect"), "us", packets.connect, "flat");
  report.Limit(row("connect"), packets.direct);
  report.Ours(row("answer"), "us", packets.change_to_answer);
}

// What the slow ones do with 30,000 services and more is no news.
void MeasurePeers(const Shape& shape, bool all, Report& report) {
  if (!IsPlain(shape)) return;
  MeasureXtables({"legacy", all ? 30000u : 10000u, 30000}, shape, report);
  MeasureXtables({"nft", 10000, all ? 10000u : 1000u}, shape, report);
  MeasureIpvsadm(shape, report);
}

std::vector<size_t> ParseSizes(const std::string& text) {
  std::vector<size_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(std::strtoul(text.substr(at, comma - at).c_str(), nullptr, 10));
    at = comma + 1;
  }
  return out;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;  // NOLINT(google-build-using-namespace)
  std::string json;
  std::vector<size_t> sizes;
  bool all = false, ipvs = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    all = all || option == "--all";
    ipvs = ipvs || option == "--ipvs";
    if (i + 1 < argc && option == "--json") json = argv[i + 1];
    if (i + 1 < argc && option == "--sizes") sizes = ParseSizes(argv[i + 1]);
  }
  Report report;
  for (const Shape& shape : Shapes(sizes, all)) {
    if (ipvs) {
      if (IsPlain(shape)) MeasureIpvs(shape, report);
      continue;
    }
    MeasureOurs(shape, report);
    MeasurePeers(shape, all, report);
  }
  if (!json.empty()) std::ofstream(json) << report.Json();
  return 0;
}
