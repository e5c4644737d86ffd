// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/upgrade.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/common/wire.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr int kSealTries = 50;
constexpr useconds_t kSealPauseMicros = 10'000;

constexpr uint32_t kHandoverMagic = 0x4f484648;  // "HFHO"
constexpr uint16_t kHandoverVersion = 1;
constexpr size_t kMaxHandoverBytes = 64u << 20;

std::string Encode(const Handover& handover) {
  Encoder out;
  out.U32(kHandoverMagic).U16(kHandoverVersion);
  out.U32(static_cast<uint32_t>(handover.values.size()));
  for (const auto& [key, value] : handover.values) out.Text(key).Text(value);
  out.U32(static_cast<uint32_t>(handover.fds.size()));
  for (const auto& [key, fds] : handover.fds) {
    out.Text(key).U32(static_cast<uint32_t>(fds.size()));
    for (const UniqueFd& fd : fds) out.I32(fd.get());
  }
  return out.Take();
}

void SetCloexec(const Handover& handover, bool on) {
  for (const auto& [key, fds] : handover.fds) {
    for (const UniqueFd& fd : fds) ::fcntl(fd.get(), F_SETFD, on ? FD_CLOEXEC : 0);
  }
}

}  // namespace

std::string Handover::Value(const std::string& key) const {
  const auto it = values.find(key);
  return it == values.end() ? "" : it->second;
}

long Handover::Number(const std::string& key) const {
  return std::strtol(Value(key).c_str(), nullptr, 10);
}

Result<void> Handover::Give(const std::string& key, int fd) {
  if (fd < 0) return {};
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, lowest_fd));
  if (!copy) return Error::FromErrno(errno, StrCat("hand over ", key, ": duplicate a descriptor"));
  fds[key].push_back(std::move(copy));
  return {};
}

UniqueFd Handover::TakeFd(const std::string& key) {
  const auto it = fds.find(key);
  if (it == fds.end() || it->second.empty()) return {};
  UniqueFd fd = std::move(it->second.front());
  fds.erase(it);
  return fd;
}

Result<UniqueFd> CopyBinary(int binary) {
  char magic[4] = {};
  if (::pread(binary, magic, sizeof magic, 0) != 4 || std::memcmp(magic, "\177ELF", 4) != 0) {
    return InvalidArgument("keeper binary: not an ELF program");
  }
  struct stat st{};
  if (::fstat(binary, &st) != 0) return Error::FromErrno(errno, "fstat keeper binary");
  UniqueFd copy(::memfd_create("holdfast-keeper", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!copy) return Error::FromErrno(errno, "memfd_create holdfast-keeper");
  for (off_t offset = 0; offset < st.st_size;) {
    const ssize_t n =
        ::sendfile(copy.get(), binary, &offset, static_cast<size_t>(st.st_size - offset));
    if (n < 0) return Error::FromErrno(errno, "sendfile keeper binary");
    if (n == 0) return Internal("copy keeper binary: it became shorter");
  }
  // EBUSY: on a busy machine the kernel holds a page of the copy for a moment longer.
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  for (int tries_left = kSealTries; ::fcntl(copy.get(), F_ADD_SEALS, kSeals) != 0; --tries_left) {
    if (errno != EBUSY || tries_left == 0) return Error::FromErrno(errno, "seal keeper binary");
    ::usleep(kSealPauseMicros);
  }
  return copy;
}

Result<UniqueFd> CopyOwnBinary() {
  ASSIGN_OR_RETURN(const UniqueFd self, sys::OpenAt(AT_FDCWD, "/proc/self/exe", O_RDONLY));
  return CopyBinary(self.get());
}

Error ReExecute(int binary, std::vector<std::string> args, const Handover& handover) {
  auto state = sys::SealedMemfd("holdfast-handover", Encode(handover));
  if (!state) return std::move(state.error());
  args.push_back(StrCat("--resume=", state->get()));
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  ::fcntl(state->get(), F_SETFD, 0);
  SetCloexec(handover, false);
  HOLDFAST_PAUSE_POINT("keeper.before-reexec");
  ::execveat(binary, "", argv.data(), environ, AT_EMPTY_PATH);
  const int err = errno;
  SetCloexec(handover, true);
  return Error::FromErrno(err, "execveat keeper binary");
}

Result<Handover> TakeHandover(int memfd) {
  const UniqueFd owned(memfd);
  ASSIGN_OR_RETURN(const std::string data, sys::ReadFd(memfd, kMaxHandoverBytes));
  Decoder in(data);
  if (in.U32() != kHandoverMagic) return InvalidArgument("hand-over: not one of ours");
  if (const uint16_t v = in.U16(); v != kHandoverVersion) {
    return Unsupported(StrCat("hand-over of version ", v));
  }
  Handover handover;
  for (uint32_t n = in.U32(); n > 0 && in.ok(); --n) {
    std::string key = in.Text();
    handover.values[std::move(key)] = in.Text();
  }
  for (uint32_t n = in.U32(); n > 0 && in.ok(); --n) {
    auto& fds = handover.fds[in.Text()];
    for (uint32_t m = in.U32(); m > 0 && in.ok(); --m) fds.emplace_back(in.I32());
  }
  SetCloexec(handover, true);
  if (!in.AtEnd()) return InvalidArgument("hand-over is cut off");
  return handover;
}

}  // namespace holdfast::runtime::keeper
