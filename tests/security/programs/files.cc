// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <functional>
#include <iostream>

#include "attacker.h"

namespace attacker {
namespace {

// Directories of processes are everybody's own business (the kernel judges access by ptrace's
// rules).
bool IsProcess(const std::string& folder, const char* name) {
  if (folder != "/proc") return false;
  const std::string word = name;
  return word == "self" || word == "thread-self" ||
         std::isdigit(static_cast<unsigned char>(name[0])) != 0;
}

void Walk(const std::string& folder, const std::function<void(const std::string&)>& visit) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || IsProcess(folder, entry->d_name)) continue;
    const std::string path = folder + "/" + name;
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) continue;
    if (S_ISDIR(st.st_mode)) Walk(path, visit);
    if (S_ISREG(st.st_mode)) visit(path);
  }
  ::closedir(stream);
}

int Visit(const Words& roots, const std::function<bool(const std::string&)>& finds) {
  size_t seen = 0;
  for (const std::string& root : roots) {
    const auto look = [&](const std::string& path) {
      ++seen;
      if (finds(path)) std::cout << path << '\n';
    };
    struct stat st{};
    if (::stat(root.c_str(), &st) == 0 && S_ISREG(st.st_mode)) look(root);
    Walk(root, look);
  }
  std::cout << "done " << seen << std::endl;
  return 0;
}

}  // namespace

int OpenForWriting(const Words& roots) {
  return Visit(roots, [](const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    // procfs lets root open what nobody takes writes of; a write of nothing gives EIO there.
    const bool plain = path.starts_with("/proc/") && !path.starts_with("/proc/sys/");
    const bool taken = !plain || ::write(fd, "", 0) == 0 || errno != EIO;
    ::close(fd);
    return taken;
  });
}

int OpenForReading(const Words& roots) {
  return Visit(roots, [](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
  });
}

int Descend(const Words& words) {
  if (words.size() < 2 || ::chdir(words[0].c_str()) != 0) return 1;
  const long depth = std::stol(words[1]);
  long made = 0;
  while (made < depth && ::mkdir("d", 0755) == 0 && ::chdir("d") == 0) ++made;
  std::cout << "done " << made << std::endl;
  return 0;
}

int Exchange(const Words& words) {
  if (words.size() < 3) return 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stol(words[0]));
  long rounds = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i, ++rounds) {
      ::renameat2(AT_FDCWD, words[1].c_str(), AT_FDCWD, words[2].c_str(), RENAME_EXCHANGE);
    }
  }
  std::cout << "done " << rounds << std::endl;
  return 0;
}

int Fill(const Words& words) {
  if (words.size() < 2) return 2;
  const int fd = ::open(words[0].c_str(), O_WRONLY | O_CLOEXEC);
  const std::string zeros(1 << 16, '\0');
  const long most = std::stol(words[1]) << 20;
  long written = 0;
  while (fd >= 0 && written < most) {
    const ssize_t n = ::write(fd, zeros.data(), zeros.size());
    if (n <= 0) break;
    written += n;
  }
  std::cout << words[0] << ' ' << written << " then " << Outcome(written < most ? -1 : 0)
            << std::endl;
  return 0;
}

}  // namespace attacker
