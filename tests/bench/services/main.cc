// SPDX-License-Identifier: Apache-2.0
// bench_services [--json FILE] [--sizes N,N…] [--all]: what the nf_tables back end needs to bring
// Services into the kernel, in a network namespace of its own: everything at once, one endpoint
// replaced, added and removed, one service added; from the rows to the kernel's answer. Without
// --all only the shapes that tell something of their own.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "netproxy/nft/service_back_end.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kChanges = 2000;
constexpr size_t kLoads = 5;

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

template <class T>
T OrDie(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "bench_services: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Shape {
  size_t services = 0;
  size_t endpoints = 0;
  bool load_balancer = false;  // four frontends: cluster IP, node port, two load balancer addresses
  std::string name() const {
    return StrCat(load_balancer ? "lb4" : "clusterip", ".", services, "x", endpoints);
  }
};

IpAddress Ip4(uint32_t number) {
  const uint8_t bytes[] = {static_cast<uint8_t>(number >> 24), static_cast<uint8_t>(number >> 16),
                           static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  return IpAddress::FromBytes(false, bytes);
}

std::shared_ptr<model::ServicePortRow> Row(const Shape& shape, size_t i) {
  using enum model::FrontendKind;
  auto row = std::make_shared<model::ServicePortRow>();
  row->key = {StrCat("bench/", 1000000 + i), false};
  const auto number = static_cast<uint32_t>(i);
  for (size_t e = 0; e < shape.endpoints; ++e) {
    const auto at = static_cast<uint32_t>(i * shape.endpoints + e);
    row->cluster.push_back({Ip4(0x0a800000u + at), 8080});
  }
  const auto add = [&](model::FrontendKind kind, IpAddress address, uint16_t port) {
    model::Frontend frontend;
    frontend.kind = kind;
    frontend.address = address;
    frontend.port = port;
    frontend.masquerade = kind == kClusterIp ? 6 : 7;
    row->frontends.push_back(std::move(frontend));
  };
  add(kClusterIp, Ip4(0x0a600000u + number), 80);
  if (shape.load_balancer) {
    add(kLoadBalancerIp, Ip4(0xc6330000u + number), 80);
    add(kLoadBalancerIp, Ip4(0xc7000000u + number), 80);
    add(kNodePort, IpAddress{}, static_cast<uint16_t>(1 + i));
  }
  return row;
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};
Percentiles Of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[samples.size() * 99 / 100]};
}

class Bench {
 public:
  explicit Bench(const Shape& shape) : shape_(shape), change_(Base()) {
    for (size_t i = 0; i < shape.services; ++i) all_.push_back(Row(shape, i));
  }

  void Run(std::string& rows) {
    Report("load", LoadAll(), rows,
           shape_.services == 10000 && !shape_.load_balancer && shape_.endpoints == 2 ? "60000 p50"
                                                                                      : "");
    Report("replace", Measure([&](size_t i) { return Edited(i, 0); }), rows, "15 p50, 150 p99");
    Report("add", Measure([&](size_t i) { return Edited(i, 1); }), rows, "15 p50, 150 p99");
    Report("remove", Measure([&](size_t i) { return Edited(i, -1); }), rows, "15 p50, 150 p99");
    Report("service", Measure([&](size_t i) { return Row(shape_, shape_.services + i); }), rows,
           "15 p50, 150 p99");
  }

 private:
  static model::ServiceChange Base() {
    model::ServiceChange change;
    change.settings = std::make_shared<model::ServiceSettings>();
    return change;
  }

  std::vector<double> LoadAll() {
    std::vector<double> out;
    for (size_t i = 0; i < kLoads; ++i) {
      if (back_end_) OrDie(back_end_->Remove());
      back_end_ = OrDie(nft::NftServices::Open("holdfast-services"));
      change_.complete = true;
      change_.rows.assign(all_.begin(), all_.end());
      const auto start = Clock::now();
      OrDie(back_end_->Apply(change_));
      out.push_back(MicrosecondsSince(start));
    }
    change_.complete = false;
    return out;
  }

  // Service i with one endpoint replaced (0), one more (1), or one less (-1) than it has now.
  std::shared_ptr<model::ServicePortRow> Edited(size_t i, int difference) {
    auto& known = all_[i * 7919 % all_.size()];
    auto row = std::make_shared<model::ServicePortRow>(*known);
    if (difference < 0) {
      row->cluster.erase(row->cluster.begin());
    } else {
      if (difference == 0) row->cluster.pop_back();
      row->cluster.push_back({Ip4(0x0b000000u + fresh_++), 8080});
    }
    std::sort(row->cluster.begin(), row->cluster.end());
    known = row;
    return row;
  }

  template <class Make>
  std::vector<double> Measure(const Make& make) {
    std::vector<double> out;
    const size_t n = std::min(kChanges, shape_.services);
    for (size_t i = 0; i < n; ++i) {
      change_.rows = {make(i)};
      const auto start = Clock::now();
      OrDie(back_end_->Apply(change_));
      out.push_back(MicrosecondsSince(start));
    }
    return out;
  }

  void Report(const char* what, const std::vector<double>& samples, std::string& rows,
              const std::string& aim) const {
    const Percentiles p = Of(samples);
    const std::string row = StrCat("services.nft.", what, ".", shape_.name());
    std::printf("%-44s p50 %10.1f us  p99 %10.1f us  n %zu\n", row.c_str(), p.p50, p.p99,
                samples.size());
    rows += StrCat("{\"row\":\"", row, "\",\"unit\":\"us\",\"n\":", samples.size(),
                   ",\"ours\":{\"p50\":", p.p50, ",\"p99\":", p.p99, "},\"aim\":\"", aim, "\"}\n");
  }

  Shape shape_;
  model::ServiceChange change_;
  std::vector<std::shared_ptr<const model::ServicePortRow>> all_;
  std::unique_ptr<nft::NftServices> back_end_;
  uint32_t fresh_ = 0;
};

std::vector<size_t> ParseSizes(const std::string& text) {
  std::vector<size_t> out;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(std::strtoul(text.substr(at, comma - at).c_str(), nullptr, 10));
    at = comma + 1;
  }
  return out;
}

// Growth with the number of Services; more endpoints and more frontends at one size.
std::vector<Shape> Shapes(std::vector<size_t> sizes, bool all) {
  if (sizes.empty() && !all) {
    return {{1000, 2, false},  {10000, 2, false}, {30000, 2, false},
            {10000, 5, false}, {1000, 2, true},   {10000, 2, true}};
  }
  if (sizes.empty()) sizes = {1000, 5000, 10000, 30000};
  std::vector<Shape> shapes;
  for (const bool load_balancer : {false, true}) {
    for (const size_t endpoints : {2, 5}) {
      for (const size_t services : sizes) shapes.push_back({services, endpoints, load_balancer});
    }
  }
  return shapes;
}

}  // namespace
}  // namespace holdfast::netproxy

int main(int argc, char** argv) {
  using namespace holdfast::netproxy;  // NOLINT(google-build-using-namespace)
  std::string json;
  std::vector<size_t> sizes;
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    all = all || option == "--all";
    if (i + 1 < argc && option == "--json") json = argv[i + 1];
    if (i + 1 < argc && option == "--sizes") sizes = ParseSizes(argv[i + 1]);
  }
  std::string rows;
  for (const Shape& shape : Shapes(sizes, all)) {
    // A namespace of its own per shape: nothing is left of the one before.
    if (::unshare(CLONE_NEWNET) != 0) {
      std::perror("bench_services: unshare");
      return 1;
    }
    Bench(shape).Run(rows);
  }
  if (!json.empty()) std::ofstream(json) << rows;
  return 0;
}
