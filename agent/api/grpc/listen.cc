// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/listen.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/lock_file.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent::api {
namespace {

constexpr int kBacklog = 128;

// By way of the directory's descriptor the name always fits into sun_path, however deep it lies.
Result<sockaddr_un> AddressIn(int directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = StrCat("/proc/self/fd/", directory, "/", name);
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("socket name " + name + ": too long");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<UniqueFd> NewSocket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Error::FromErrno(errno, "socket AF_UNIX");
  return socket;
}

Result<DirFd> OpenSocketDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0711) != 0 && errno != EEXIST) {
    return Error::FromErrno(errno, "mkdir " + path);
  }
  ASSIGN_OR_RETURN(UniqueFd opened, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  DirFd directory(opened.Release());
  struct stat info{};
  if (::fstat(directory.get(), &info) != 0) return Error::FromErrno(errno, "stat " + path);
  // Members of the group must get through to the socket; what else lies there has modes of its own.
  if (info.st_uid == ::geteuid() && (info.st_mode & 0011) != 0011 &&
      ::fchmod(directory.get(), (info.st_mode & 07777) | 0011) != 0) {
    return Error::FromErrno(errno, "chmod " + path);
  }
  return directory;
}

Result<UniqueFd> TakeLock(int directory, const std::string& name) {
  auto lock = sys::TakeLock(directory, name + ".lock");
  if (!lock && lock.error().code() == Code::kConflict) {
    return Conflict("another agent serves this socket");
  }
  return lock;
}

// With the lock in hand: whoever still answers is no agent of ours, and is left alone.
Result<void> RemoveDeadSocket(int directory, const std::string& name) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return Error::FromErrno(errno, "stat " + name);
  }
  if (!S_ISSOCK(info.st_mode)) return Conflict(name + " is there and is not a socket");
  ASSIGN_OR_RETURN(const UniqueFd probe, NewSocket());
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressIn(directory, name));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN) {
    return Conflict("another program answers on " + name);
  }
  return sys::RemoveFileAt(directory, name);
}

// Bound under a temporary name and renamed, so that nobody ever sees it with the wrong mode.
Result<UniqueFd> Bind(int directory, const std::string& name, gid_t group) {
  const std::string temporary = "." + name + ".new";
  RETURN_IF_ERROR(sys::RemoveFileAt(directory, temporary));
  ASSIGN_OR_RETURN(UniqueFd socket, NewSocket());
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressIn(directory, temporary));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Error::FromErrno(errno, "bind " + temporary);
  }
  if (group != 0 && ::fchownat(directory, temporary.c_str(), static_cast<uid_t>(-1), group,
                               AT_SYMLINK_NOFOLLOW) != 0) {
    return Error::FromErrno(errno, "chown " + temporary);
  }
  if (::fchmodat(directory, temporary.c_str(), 0660, 0) != 0) {
    return Error::FromErrno(errno, "chmod " + temporary);
  }
  if (::listen(socket.get(), kBacklog) != 0) return Error::FromErrno(errno, "listen " + temporary);
  HOLDFAST_PAUSE_POINT("api.listen.before_rename");
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
    return Error::FromErrno(errno, "rename " + temporary + " to " + name);
  }
  return socket;
}

}  // namespace

ApiSocket::ApiSocket(DirFd directory, std::string name, UniqueFd lock, UniqueFd socket)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      lock_(std::move(lock)),
      socket_(std::move(socket)) {}

ApiSocket::~ApiSocket() {
  if (!socket_) return;  // moved from
  // A socket file that stays behind is harmless: the next start finds nobody answering.
  (void)sys::RemoveFileAt(directory_.get(), name_);
}

Result<ApiSocket> ApiSocket::Listen(const std::string& path, gid_t group) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size()) {
    return InvalidArgument("socket " + path + ": not an absolute path of a file");
  }
  const std::string name = path.substr(slash + 1);
  const std::string context = "listen on " + path;
  ASSIGN_OR_RETURN(DirFd directory,
                   WithContext(OpenSocketDirectory(path.substr(0, slash)), context));
  ASSIGN_OR_RETURN(UniqueFd lock, WithContext(TakeLock(directory.get(), name), context));
  RETURN_IF_ERROR(WithContext(RemoveDeadSocket(directory.get(), name), context));
  ASSIGN_OR_RETURN(UniqueFd socket, WithContext(Bind(directory.get(), name, group), context));
  return ApiSocket(std::move(directory), name, std::move(lock), std::move(socket));
}

}  // namespace holdfast::agent::api
