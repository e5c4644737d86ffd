// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_compress.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr size_t kChunkBytes = 128 * 1024;
constexpr int kGzipWindow = 15 + 16;  // zlib: largest window, with a gzip header
constexpr int kLevel = 1;             // log text shrinks well at once; the processor is not ours
constexpr int kMemLevel = 8;

Result<void> Deflate(int from, int to) {
  z_stream z{};
  if (::deflateInit2(&z, kLevel, Z_DEFLATED, kGzipWindow, kMemLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Internal("deflateInit2");
  }
  std::vector<unsigned char> in(kChunkBytes);
  std::vector<unsigned char> out(kChunkBytes);
  int step = Z_OK;
  while (step != Z_STREAM_END) {
    const ssize_t n = ::read(from, in.data(), in.size());
    if (n < 0) return Error::FromErrno(errno, "read rotated log");
    z.next_in = in.data();
    z.avail_in = static_cast<uInt>(n);
    do {
      z.next_out = out.data();
      z.avail_out = static_cast<uInt>(out.size());
      step = ::deflate(&z, n == 0 ? Z_FINISH : Z_NO_FLUSH);
      const size_t made = out.size() - z.avail_out;
      RETURN_IF_ERROR(
          sys::WriteAll(to, std::string_view(reinterpret_cast<const char*>(out.data()), made)));
    } while (z.avail_out == 0);
  }
  ::deflateEnd(&z);
  return {};
}

Result<void> Compress(int dir, const std::string& stem) {
  const std::string temporary = StrCat(stem, ".tmp");
  ASSIGN_OR_RETURN(const UniqueFd from, sys::OpenPlainFileAt(dir, stem, O_RDONLY));
  RETURN_IF_ERROR(sys::RemoveFileAt(dir, temporary));
  ASSIGN_OR_RETURN(const UniqueFd to,
                   sys::OpenAt(dir, temporary, O_WRONLY | O_CREAT | O_EXCL, 0640));
  RETURN_IF_ERROR(Deflate(from.get(), to.get()));
  const std::string packed = StrCat(stem, ".gz");
  HOLDFAST_PAUSE_POINT("log.compressed");
  if (::renameat(dir, temporary.c_str(), dir, packed.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("rename ", packed));
  }
  HOLDFAST_PAUSE_POINT("log.compressed-renamed");
  return sys::RemoveFileAt(dir, stem);
}

// No pipe, lock or socket of the logger stays open in here.
int CloseAllBut(int dir) {
  const int low = 3;
  if (dir != low) ::dup2(dir, low);
  ::close_range(low + 1, ~0u, 0);
  return low;
}

}  // namespace

Result<pid_t> StartCompression(int dir, const std::string& stem) {
  const pid_t logger = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error::FromErrno(errno, "fork compression");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != logger) ::_exit(1);
  ::prctl(PR_SET_NAME, "hf-gzip");
  ::setpriority(PRIO_PROCESS, 0, 19);
  const sched_param idle{};
  ::sched_setscheduler(0, SCHED_IDLE, &idle);
  const int own_dir = CloseAllBut(dir);
  const auto done = Compress(own_dir, stem);
  if (!done) ::unlinkat(own_dir, StrCat(stem, ".tmp").c_str(), 0);
  ::_exit(done ? 0 : 1);
}

}  // namespace holdfast::runtime::keeper
