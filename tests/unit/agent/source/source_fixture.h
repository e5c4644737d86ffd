// SPDX-License-Identifier: Apache-2.0
// A manifest directory in a temporary place, and pods to put there.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/eventually.h"

namespace holdfast::agent {

using test_support::Eventually;

inline std::string PodYaml(const std::string& name, const std::string& image = "nginx:1") {
  return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name +
         "\nspec:\n  containers:\n  - name: main\n    image: " + image + "\n";
}

class SourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-source-XXXXXX";
    base_ = ::mkdtemp(pattern);
    dir_ = base_ + "/manifests";
    std::filesystem::create_directory(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }
  // As a careful program does it: a dot file, renamed.
  void Place(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/." + name) << text;
    std::filesystem::rename(dir_ + "/." + name, dir_ + "/" + name);
  }
  std::string ReadBack(const std::string& name) const {
    std::ifstream file(dir_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string base_;
  std::string dir_;
};

}  // namespace holdfast::agent
