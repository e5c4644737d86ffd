// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/ipvs.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "holdfast/base/strings.h"
#include "netproxy/services/ipvs/back_end.h"
#include "tests/bench/measure.h"
#include "tests/bench/services/loads.h"
#include "tests/bench/services/peers.h"

namespace holdfast::bench {
namespace {

constexpr int kTurns = 5;
constexpr size_t kIpvsChanges = 50;  // per turn
constexpr char kPeer[] = "ipvsadm -R";

std::string ServiceWords(size_t i) { return StrCat("-t ", ClusterIpOf(i).ToString(), ":80"); }

std::string EndpointWords(const Shape& shape, size_t i, size_t endpoint) {
  return StrCat(ServiceWords(i), " -r ", EndpointOf(shape, i, endpoint).ToString(), ":8080");
}

std::string AllServices(const Shape& shape) {
  std::string text;
  for (size_t i = 0; i < shape.services; ++i) {
    text += StrCat("-A ", ServiceWords(i), " -s rr\n");
    for (size_t e = 0; e < shape.endpoints; ++e) {
      text += StrCat("-a ", EndpointWords(shape, i, e), " -m -w 1\n");
    }
  }
  return text;
}

std::string OneReplaced(const Shape& shape, size_t i) {
  return StrCat("-d ", EndpointWords(shape, i, 0), "\n-a ",
                EndpointWords(shape, i + shape.services, 0), " -m -w 1\n");
}

// A fresh network; IPVS takes real servers only where there are routes.
void EnterRoutedNetwork() {
  EnterFreshNetwork();
  if (std::system("ip link set lo up") != 0) Die("cannot raise the loopback");
}

double Ipvsadm(const std::string& text) {
  std::string path = std::filesystem::temp_directory_path() / "holdfast-bench-XXXXXX";
  const int fd = ::mkstemp(path.data());
  if (fd < 0) Die("mkstemp");
  ::close(fd);
  std::ofstream(path) << text;
  const auto start = Clock::now();
  const int status = std::system(StrCat("ipvsadm -R < ", path, " > /dev/null 2>&1").c_str());
  const double took = MicrosecondsSince(start);
  ::unlink(path.c_str());
  return status == 0 ? took : -1;
}

std::unique_ptr<ServiceBackEnd> OpenIpvs() {
  return OrDie(netproxy::ipvs::IpvsBackEnd::Open(netproxy::ipvs::IpvsOptions()));
}

void Append(Report::Samples& all, const Report::Samples& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

bool HasIpvs() { return ::access("/proc/net/ip_vs", F_OK) == 0; }

double LoadByIpvsadm(const Shape& shape) {
  EnterRoutedNetwork();
  return Ipvsadm(AllServices(shape));
}

void MeasureIpvs(const Shape& shape, Report& report) {
  Report::Samples load, replace, their_load, their_replace;
  for (int turn = 0; turn < kTurns; ++turn) {
    EnterRoutedNetwork();
    Loads loads(shape, OpenIpvs);
    Append(load, loads.LoadAll(1).wall);
    Append(replace, loads.Edit(kIpvsChanges, 0));
    their_load.push_back(LoadByIpvsadm(shape));
    for (size_t i = 0; i < std::min(kIpvsChanges, shape.services / 2); ++i) {
      their_replace.push_back(Ipvsadm(OneReplaced(shape, i)));
    }
  }
  const auto row = [&](const char* what) {
    return StrCat("services.ipvs.", what, ".", shape.name());
  };
  report.Ours(row("load"), "us", load);
  report.Peer(row("load"), kPeer, their_load);
  report.Ours(row("replace"), "us", replace);
  report.Peer(row("replace"), kPeer, their_replace);
}

}  // namespace holdfast::bench
