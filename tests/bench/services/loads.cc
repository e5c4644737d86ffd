// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/loads.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "tests/bench/measure.h"

namespace holdfast::bench {

double ProcessorMicroseconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    sum += static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  }
  return sum;
}

double KernelMegabytes() {
  std::ifstream in("/proc/meminfo");
  double kilobytes = 0;
  for (std::string key, value, rest; in >> key >> value; std::getline(in, rest)) {
    if (key == "SUnreclaim:" || key == "VmallocUsed:" || key == "Percpu:") {
      kilobytes += std::strtod(value.c_str(), nullptr);
    }
  }
  return kilobytes / 1024;
}

Loads::Loads(const Shape& shape, const Open& open) : shape_(shape), open_(open) {
  for (size_t i = 0; i < shape.services; ++i) all_.push_back(Row(shape, i));
  change_.settings = std::make_shared<model::ServiceSettings>();
}

Loads::Load Loads::LoadAll(size_t n) {
  Load out;
  change_.complete = true;
  for (size_t i = 0; i < n; ++i) {
    if (back_end_) OrDie(back_end_->Remove());
    back_end_ = open_();
    change_.rows.assign(all_.begin(), all_.end());
    const double memory = KernelMegabytes();
    const double processor = ProcessorMicroseconds();
    const auto start = Clock::now();
    OrDie(back_end_->Apply(change_));
    out.wall.push_back(MicrosecondsSince(start));
    out.processor.push_back(ProcessorMicroseconds() - processor);
    if (i == 0) out.memory.push_back(KernelMegabytes() - memory);
  }
  change_.complete = false;
  return out;
}

template <class Make>
Loads::Samples Loads::Measure(size_t n, const Make& make) {
  Samples out;
  for (size_t i = 0; i < std::min(n, shape_.services); ++i) {
    change_.rows = {make()};
    const auto start = Clock::now();
    OrDie(back_end_->Apply(change_));
    out.push_back(MicrosecondsSince(start));
  }
  return out;
}

Loads::Samples Loads::Edit(size_t n, int difference) {
  return Measure(n, [&] {
    auto& known = all_[edits_++ * 7919 % all_.size()];
    auto row = std::make_shared<model::ServicePortRow>(*known);
    if (difference < 0) {
      row->cluster.erase(row->cluster.begin());
    } else {
      if (difference == 0) row->cluster.pop_back();
      row->cluster.push_back({Ip4(0x0b000000u + fresh_endpoints_++), 8080});
    }
    std::sort(row->cluster.begin(), row->cluster.end());
    known = row;
    return row;
  });
}

Loads::Samples Loads::AddServices(size_t n) {
  return Measure(n, [&] { return Row(shape_, shape_.services + added_++); });
}

}  // namespace holdfast::bench
