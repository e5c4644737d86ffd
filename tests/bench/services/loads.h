// SPDX-License-Identifier: Apache-2.0
// What changes of Services cost a back end, from the rows to the kernel's answer. In the calling
// thread's network namespace, which must be a fresh one. Single-threaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {

class Loads {
 public:
  using Samples = std::vector<double>;
  using Open = std::function<std::unique_ptr<ServiceBackEnd>()>;

  Loads(const Shape& shape, const Open& open);

  struct Load {
    Samples wall;       // microseconds
    Samples processor;  // of this process and of the programs that it waited for
    Samples memory;     // MB of the kernel's, the first time only
  };
  // Everything into a kernel that has nothing, n times.
  Load LoadAll(size_t n);
  // n services, one after the other: an endpoint replaced (0), one more (1), or one less (-1) than
  // they have now.
  Samples Edit(size_t n, int difference);
  Samples AddServices(size_t n);

 private:
  template <class Make>
  Samples Measure(size_t n, const Make& make);

  const Shape shape_;
  const Open open_;
  model::ServiceChange change_;
  std::vector<std::shared_ptr<model::ServicePortRow>> all_;
  std::unique_ptr<ServiceBackEnd> back_end_;
  uint32_t fresh_endpoints_ = 0;
  size_t edits_ = 0;
  size_t added_ = 0;
};

// Processor time so far of this process and of the children that it has waited for, microseconds.
double ProcessorMicroseconds();
// What the kernel uses for itself and cannot take back, in MB; of the whole machine.
double KernelMegabytes();

}  // namespace holdfast::bench
