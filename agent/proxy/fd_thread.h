// SPDX-License-Identifier: Apache-2.0
// FdThread: a thread that waits for one descriptor and calls a function whenever it is readable.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

class FdThread {
 public:
  // `fd` is borrowed. `readable` takes what waits; false ends the thread.
  static Result<std::unique_ptr<FdThread>> Start(int fd, std::function<bool()> readable);
  ~FdThread();  // after this `readable` is called no more
  FdThread(const FdThread&) = delete;
  FdThread& operator=(const FdThread&) = delete;

 private:
  FdThread(int fd, sys::Wakeup stop, std::function<bool()> readable)
      : fd_(fd), stop_(std::move(stop)), readable_(std::move(readable)) {}
  void Run();

  const int fd_;
  const sys::Wakeup stop_;
  const std::function<bool()> readable_;
  std::thread thread_;
};

}  // namespace holdfast::agent
