// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "agent/log/log_line.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

// 80 lines of usual length and 2048 bytes of text both fit with their prefixes of about 45 bytes.
constexpr off_t kWindow = 16 * 1024;

}  // namespace

std::string ReadLogTail(int directory, const std::string& name) {
  const auto fd = sys::OpenPlainFileAt(directory, name, O_RDONLY);
  struct stat st{};
  if (!fd || ::fstat(fd->get(), &st) != 0) return "";
  const off_t begin = st.st_size > kWindow ? st.st_size - kWindow : 0;
  std::string raw(static_cast<size_t>(st.st_size - begin), '\0');
  const ssize_t n = ::pread(fd->get(), raw.data(), raw.size(), begin);
  raw.resize(n > 0 ? static_cast<size_t>(n) : 0);
  std::string_view rest = raw;
  // The first line of a window is cut.
  if (begin > 0) rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()));
  std::string out;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (const auto line = ParseCriLine(rest.substr(0, end))) {
      out.append(line->text);
      if (!line->partial) out.push_back('\n');
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace holdfast::agent
