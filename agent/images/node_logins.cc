// SPDX-License-Identifier: Apache-2.0
#include "agent/images/node_logins.h"

#include <fcntl.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMaxFile = 1 << 20;

}  // namespace

std::vector<std::string> NodeLoginFiles(const std::string& root_dir, const std::string& home) {
  std::vector<std::string> files = {root_dir + "/config.json"};
  if (!home.empty()) files.push_back(home + "/.docker/config.json");
  files.emplace_back("/.docker/config.json");
  files.push_back(root_dir + "/.dockercfg");
  if (!home.empty()) files.push_back(home + "/.dockercfg");
  files.emplace_back("/.dockercfg");
  return files;
}

Keyring ReadNodeLogins(const std::vector<std::string>& files,
                       const std::function<void(const std::string&)>& log) {
  for (const std::string& file : files) {
    const auto text = sys::ReadFileAt(AT_FDCWD, file, kMaxFile);
    if (!text && text.error().code() == Code::kNotFound) continue;
    auto keyring = text ? ParseDockerConfig(*text, file.ends_with(".dockercfg"))
                        : Result<Keyring>(text.error());
    if (keyring) return std::move(*keyring);
    log(StrCat(file, ": ", keyring.error().message(), ", ignoring"));
  }
  return {};
}

}  // namespace holdfast::agent
