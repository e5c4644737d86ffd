// SPDX-License-Identifier: Apache-2.0
#include "agent/base/periodic_thread.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

void RunPeriodically(const std::stop_token& stop, std::chrono::milliseconds wait,
                     const PeriodicThread::Work& work) {
  std::mutex mutex;
  std::condition_variable_any wake;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      wake.wait_for(lock, stop, wait, [] { return false; });
    }
    if (stop.stop_requested()) return;
    wait = work(stop);
  }
}

}  // namespace

PeriodicThread::~PeriodicThread() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Result<void> PeriodicThread::Start(const std::string& name, std::chrono::milliseconds first,
                                   Work work) {
  ASSIGN_OR_RETURN(
      thread_, sys::StartThread(name, [stop = stop_.get_token(), first, work = std::move(work)] {
        RunPeriodically(stop, first, work);
      }));
  return {};
}

}  // namespace holdfast::agent
