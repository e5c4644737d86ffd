// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/agent/containerd/targets.h"
#include "tests/support/bolt_file.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

using namespace test_support;  // NOLINT: its Bolt… functions

TEST(FuzzSmokeTest, Bolt) {
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string file = BoltFile(
      {BoltImagesAt3("k8s.io"), BoltBranchPage(3, {4, 5}),
       BoltLeafPage(4, {BoltImage("r.io/a:1", digest), BoltImage("r.io/b:1", digest)}),
       BoltLeafPage(5, {BoltImage("r.io/c@" + digest, digest), BoltImage(digest, digest)})});
  using namespace std::string_literals;  // NOLINT: bytes with zeros
  Replay(FuzzBolt, {file.substr(2 * kBoltPage)}, "\0\1\2\3\4\20\x7F\xFF"s, 4000);
}

}  // namespace
}  // namespace holdfast::fuzz
