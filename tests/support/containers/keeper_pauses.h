// SPDX-License-Identifier: Apache-2.0
// Processes of a keeper stopped at a pause point (holdfast/sys/pause_point.h) that the test arms.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::test_support {

class KeeperPauses {
 public:
  // A keeper that is started while this lives has the pause points; so has who it starts later.
  explicit KeeperPauses(const RuntimeNode& node)
      : directory_(node.dir() + "/root/pause") {  // in the launcher's mount namespace too
    std::filesystem::create_directories(directory_ + "/armed");
    ::setenv("HOLDFAST_PAUSE_AT", "@", 1);
    ::setenv("HOLDFAST_PAUSE_DIR", directory_.c_str(), 1);
  }
  ~KeeperPauses() { ::unsetenv("HOLDFAST_PAUSE_AT"); }
  KeeperPauses(const KeeperPauses&) = delete;
  KeeperPauses& operator=(const KeeperPauses&) = delete;

  // The next process that comes there stops.
  void Arm(const std::string& point) const { std::ofstream(directory_ + "/armed/" + point); }
  // It says so shortly before it stops; one that was told to go on in between would stop for good.
  std::optional<pid_t> StoppedAt(const std::string& point) const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(point)) continue;
      const pid_t pid = std::stoi(name.substr(name.rfind('.') + 1));
      if (ReadText("/proc/" + std::to_string(pid) + "/stat").find(") T ") != std::string::npos) {
        return pid;
      }
    }
    return std::nullopt;
  }
  // Once one has stopped there. It can be armed again then.
  void KillAt(const std::string& point) const {
    std::optional<pid_t> stopped;
    EXPECT_TRUE(Eventually([&] { return (stopped = StoppedAt(point)).has_value(); })) << point;
    if (!stopped) return;
    ::kill(*stopped, SIGKILL);
    std::filesystem::remove(directory_ + "/" + point + "." + std::to_string(*stopped));
  }

 private:
  const std::string directory_;
};

}  // namespace holdfast::test_support
