// SPDX-License-Identifier: Apache-2.0
// A real keeper in a run directory of its own, with the test in the place of systemd: it starts the
// holder again when it died, and as a subreaper it gets the processes that nobody else adopts.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/model/launch_plan.h"
#include "runtime/keeper/client/client.h"

namespace holdfast::runtime::keeper {

// Only against hanging: an emulated processor that others use too is twenty times slower.
inline constexpr std::chrono::minutes kPatience{3};
// Of a keeper process that keeps nothing, at most: its own and the connection that a client keeps (docs/keeper.md).
inline constexpr size_t kIdleDescriptors = 16 + 1;

// What one container is to do and what became of it.
struct Subject {
  std::string id;
  std::vector<std::string> argv;
  int exit_code = 0;
  model::LogSpec log;
  StartRecord start;
  PidFd pidfd;
};

// One line of a CRI log file.
struct LogLine {
  std::string stream;
  char tag = 0;
  std::string text;
};

class KeeperTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Starts the holder, and from then on starts it again whenever it died, then without
  // `environment`: pause points are for the first one.
  void StartHolder(const std::map<std::string, std::string>& environment = {});
  // Ends that: a dead holder stays dead.
  void StopTending();
  // Until holder, launcher and logger answer.
  void WaitForKeeper();

  // Pids of this keeper's processes: "hold", "launch", "log".
  std::vector<pid_t> Processes(const std::string& command) const;
  static void Kill(pid_t pid);  // SIGKILL, and waits until it is gone (or a zombie of somebody)
  void KillAll(const std::string& command);

  model::LaunchPlan Plan(const std::vector<std::string>& argv, const std::string& scratch);
  // Registers the log and launches.
  std::expected<Launched, LaunchFailure> Start(Subject& subject);
  // On a terminal of its own instead of pipes.
  std::expected<Launched, LaunchFailure> StartWithTerminal(Subject& subject);
  // The second half of that: its log is registered.
  std::expected<Launched, LaunchFailure> LaunchWithTerminal(Subject& subject);
  Subject Make(const std::string& name, std::vector<std::string> argv, int exit_code,
               uint64_t max_log_bytes = 1ull << 40);
  // SIGTERM, then the recorded exit.
  model::ExitReport Stop(Subject& subject);
  model::ExitReport WaitExit(const Subject& subject);
  void Clean(const Subject& subject);

  // Polls for kPatience.
  static bool Eventually(const std::function<bool()>& done);
  // Every line of the log, rotated files first; fails on a malformed one. `had_room`: for the
  // compressed files of all but the newest; then they are waited for.
  std::vector<LogLine> ReadLog(const Subject& subject, bool had_room = true);
  // Numbered lines "out 0", "out 1", … without gap or repetition, the same for "err"; whole entries
  // only. Returns how many.
  size_t ExpectComplete(const Subject& subject);
  // The same of a terminal, where all is one stream; returns how many lines "out N" there are.
  size_t ExpectTerminalComplete(const Subject& subject);
  // No process, record, descriptor or file of `subjects` is left in the keeper.
  void ExpectNothingLeft();
  std::map<std::string, size_t> DescriptorCounts() const;

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  const KeeperClient& client() const { return *client_; }

  std::expected<Launched, LaunchFailure> Launch(Subject& subject, const LaunchRequest& request);

  std::string directory_;
  std::unique_ptr<KeeperClient> client_;
  std::atomic<int> holder_starts_{0};

 private:
  void SpawnHolder(const std::map<std::string, std::string>& environment);
  void Tend();
  std::atomic<pid_t> holder_{0};
  std::atomic<bool> tending_{false};
  std::thread tender_;
};

}  // namespace holdfast::runtime::keeper
