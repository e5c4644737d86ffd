// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/check_runner.h"

#include <boost/asio/post.hpp>

#include "agent/probe/running_check_internal.h"
#include "holdfast/base/overloaded.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

// Programs that are being started or given up at a time: each takes the runtime milliseconds.
constexpr size_t kStarters = 4;

class Handle : public RunningCheck {
 public:
  explicit Handle(std::shared_ptr<CheckBase> check) : check_(std::move(check)) {}
  ~Handle() override { check_->GiveUp(); }

 private:
  const std::shared_ptr<CheckBase> check_;
};

}  // namespace

CheckRunner::CheckRunner(ContainerRuntime& runtime)
    : runtime_(runtime),
      starters_({.name = "probe-exec", .threads = kStarters}),
      work_(io_.get_executor()) {}

Result<std::unique_ptr<CheckRunner>> CheckRunner::Start(ContainerRuntime& runtime) {
  std::unique_ptr<CheckRunner> runner(new CheckRunner(runtime));
  RETURN_IF_ERROR(runner->starters_.Start());
  ASSIGN_OR_RETURN(runner->thread_, sys::StartThread("probes", [io = &runner->io_] { io->run(); }));
  return runner;
}

CheckRunner::~CheckRunner() {
  Stop();
  starters_.Finish();
}

void CheckRunner::Stop() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

void CheckRunner::Post(std::function<void()> job) { boost::asio::post(io_, std::move(job)); }

std::unique_ptr<RunningCheck> CheckRunner::Begin(const Check& check,
                                                 std::optional<std::chrono::nanoseconds> limit,
                                                 Done done) {
  auto made = std::visit(
      Overloaded{[&](const ExecCheck& c) { return MakeExecCheck(io_, runtime_, starters_, c); },
                 [&](const HttpCheck& c) { return MakeHttpCheck(io_, c); },
                 [&](const TcpCheck& c) { return MakeTcpCheck(io_, c); },
                 [&](const GrpcCheck& c) { return MakeGrpcCheck(io_, c); },
                 [&](const SleepCheck& c) { return MakeSleepCheck(io_, c); }},
      check);
  made->Begin(limit, std::move(done));
  return std::make_unique<Handle>(std::move(made));
}

}  // namespace holdfast::agent
