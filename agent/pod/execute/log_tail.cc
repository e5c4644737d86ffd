// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

// 80 lines of usual length and 2048 bytes of text both fit with their prefixes of about 45 bytes.
constexpr off_t kWindow = 16 * 1024;

// "<time> <stream> <P|F> <text>\n": appends the text; a partial line gets no line end.
void AppendText(std::string_view line, std::string& out) {
  const size_t stream = line.find(' ');
  const size_t tag = stream == std::string_view::npos ? stream : line.find(' ', stream + 1);
  if (tag == std::string_view::npos || tag + 2 > line.size()) return;
  const bool partial = line[tag + 1] == 'P';
  const size_t text = line.find(' ', tag + 1);
  if (text != std::string_view::npos) out.append(line.substr(text + 1));
  if (!partial) out.push_back('\n');
}

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
    AppendText(rest.substr(0, end), out);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace holdfast::agent
