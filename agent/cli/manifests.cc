// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/manifests.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 4ull << 20;

Result<std::string> ReadAll(int fd, const std::string& origin) {
  std::string text;
  std::string buffer(64 * 1024, '\0');
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "read " + origin);
    if (count == 0) return text;
    text.append(buffer, 0, static_cast<size_t>(count));
    if (text.size() > kMaxBytes) {
      return Error(Code::kResourceExhausted, origin + ": more than 4 MiB");
    }
  }
}

bool IsManifest(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

template <class Iterator>
Result<std::vector<std::string>> ListDirectory(const std::string& name) {
  std::error_code failed;
  std::vector<std::string> files;
  for (Iterator entry(name, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (IsManifest(entry->path()) && entry->is_regular_file(failed)) {
      files.push_back(entry->path());
    }
  }
  if (failed) return Error::FromErrno(failed.value(), "list " + name);
  std::sort(files.begin(), files.end());
  return files;
}

Result<ManifestText> ReadFile(const std::string& name) {
  const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    const int reason = errno;
    if (reason == ENOENT) return NotFound("the path \"" + name + "\" does not exist");
    return Error::FromErrno(reason, "open " + name);
  }
  ASSIGN_OR_RETURN(std::string text, ReadAll(file.get(), name));
  return ManifestText{name, std::move(text)};
}

}  // namespace

Result<std::vector<ManifestText>> ReadManifests(const std::vector<std::string>& names,
                                                bool recursive) {
  std::vector<ManifestText> manifests;
  for (const std::string& name : names) {
    if (name == "-") {
      ASSIGN_OR_RETURN(std::string text, ReadAll(STDIN_FILENO, "STDIN"));
      manifests.push_back({"STDIN", std::move(text)});
      continue;
    }
    std::vector<std::string> files = {name};
    std::error_code ignored;  // what is no directory is opened as a file and says so itself
    if (fs::is_directory(name, ignored)) {
      ASSIGN_OR_RETURN(files, recursive ? ListDirectory<fs::recursive_directory_iterator>(name)
                                        : ListDirectory<fs::directory_iterator>(name));
      if (files.empty()) return NotFound(name + ": no *.yaml, *.yml or *.json in it");
    }
    for (const std::string& file : files) {
      ASSIGN_OR_RETURN(ManifestText manifest, ReadFile(file));
      manifests.push_back(std::move(manifest));
    }
  }
  return manifests;
}

}  // namespace holdfast::agent::cli
