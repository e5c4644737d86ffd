// SPDX-License-Identifier: Apache-2.0
// What the address book has on the disk, whoever writes it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "holdfast/sys/files.h"
#include "holdfast/sys/journal.h"

namespace holdfast::netproxy {

// `directory`: the root directory.
inline sys::Journal::Opened OpenRecords(const std::string& directory) {
  auto opened = sys::Journal::Open(sys::OpenDir(directory + "/network").value(), "pods.journal",
                                   sys::Journal::Lasting::kProcess);
  EXPECT_TRUE(opened) << opened.error().message();
  return std::move(*opened);
}

inline std::vector<std::string> RecordedPods(const std::string& directory) {
  std::vector<std::string> uids;
  for (const auto& [uid, record] : OpenRecords(directory).values) uids.push_back(uid);
  return uids;
}

}  // namespace holdfast::netproxy
