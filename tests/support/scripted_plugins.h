// SPDX-License-Identifier: Apache-2.0
// CNI plugins as shell scripts in a directory that goes with this object: each writes down what it was asked, and then
// does what the test says.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/support/text_file.h"

namespace holdfast::test_support {

// One run of a plugin.
struct PluginRun {
  std::string type, verb, container_id, netns, interface, args, path;
  nlohmann::json config;  // null for VERSION
  std::string Label() const { return StrCat(type, " ", verb); }
};

class ScriptedPlugins {
 public:
  ScriptedPlugins() : top_(std::filesystem::temp_directory_path() / "plugins-XXXXXX") {
    EXPECT_NE(::mkdtemp(top_.data()), nullptr);
    std::filesystem::create_directories(programs());
    std::filesystem::create_directories(config());
  }
  ~ScriptedPlugins() { std::filesystem::remove_all(top_); }
  ScriptedPlugins(const ScriptedPlugins&) = delete;
  ScriptedPlugins& operator=(const ScriptedPlugins&) = delete;

  std::string programs() const { return top_ + "/bin"; }
  std::string config() const { return top_ + "/net.d"; }
  std::string file(const std::string& name) const { return top_ + "/" + name; }

  // `script` follows on the writing down; $CNI_COMMAND is the verb, $input what the plugin reads. VERSION is answered
  // before, with `versions`, unless these are "".
  void Program(const std::string& type, const std::string& script,
               const std::string& versions = R"("0.3.1","0.4.0","1.0.0","1.1.0")") {
    std::string text = StrCat(
        "#!/bin/sh\ninput=$(cat)\nprintf '%s|%s|%s|%s|%s|%s|%s|%s\\n' ", type,
        " \"$CNI_COMMAND\" \"$CNI_CONTAINERID\" \"$CNI_NETNS\" \"$CNI_IFNAME\" \"$CNI_ARGS\" "
        "\"$CNI_PATH\" \"$input\" >> ",
        log(), "\n");
    if (!versions.empty()) {
      text += StrCat("if [ $CNI_COMMAND = VERSION ]; then echo '{\"cniVersion\":\"1.1.0\",",
                     "\"supportedVersions\":[", versions, "]}'; exit; fi\n");
    }
    const std::string path = programs() + "/" + type;
    // Another file each time: one that runs cannot be written to.
    std::ofstream(path + ".new") << text << script << "\n";
    std::filesystem::permissions(path + ".new", std::filesystem::perms::owner_all);
    std::filesystem::rename(path + ".new", path);
  }

  void Configure(const std::string& name, const std::string& text) {
    std::ofstream(config() + "/.new") << text;
    std::filesystem::rename(config() + "/.new", config() + "/" + name);
  }

  // What was asked since the last call, in order; without VERSION.
  std::vector<PluginRun> TakeRuns() {
    std::vector<PluginRun> runs;
    std::istringstream lines(ReadText(log()).substr(read_));
    for (std::string line; std::getline(lines, line);) {
      read_ += line.size() + 1;
      std::vector<std::string> parts;
      size_t at = 0;
      for (int i = 0; i < 7; ++i) {
        const size_t end = line.find('|', at);
        parts.push_back(line.substr(at, end - at));
        at = end + 1;
      }
      if (parts[1] == "VERSION") continue;
      runs.push_back({parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6],
                      nlohmann::json::parse(line.substr(at), nullptr, false)});
    }
    return runs;
  }

  static std::vector<std::string> Labels(const std::vector<PluginRun>& runs) {
    std::vector<std::string> labels;
    for (const PluginRun& run : runs) labels.push_back(run.Label());
    return labels;
  }

 private:
  std::string log() const { return top_ + "/runs"; }

  std::string top_;
  size_t read_ = 0;
};

}  // namespace holdfast::test_support
