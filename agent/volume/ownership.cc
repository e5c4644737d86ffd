// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

constexpr mode_t kForFile = 0660;
constexpr mode_t kForDir = 02770;

bool IsRight(const struct stat& st, gid_t group, mode_t bits) {
  return st.st_gid == group && (st.st_mode & bits) == bits;
}

// `object` may be an O_PATH descriptor: the kind of what is changed cannot be exchanged any more.
Result<void> Give(int object, const struct stat& st, gid_t group, const std::string& what) {
  const bool has_bits = S_ISDIR(st.st_mode) || S_ISREG(st.st_mode);
  // Links and special files: the owner is all there is to set.
  const mode_t bits = S_ISDIR(st.st_mode) ? kForDir : has_bits ? kForFile : 0;
  if (IsRight(st, group, bits)) return {};
  if (::fchownat(object, "", static_cast<uid_t>(-1), group, AT_EMPTY_PATH) != 0) {
    return Error::FromErrno(errno, StrCat("chown ", what));
  }
  const std::string path = StrCat("/proc/self/fd/", object);
  if (has_bits && ::chmod(path.c_str(), (st.st_mode & 07777) | bits) != 0) {
    return Error::FromErrno(errno, StrCat("chmod ", what));
  }
  return {};
}

}  // namespace

Result<void> GiveToGroup(int dir, gid_t group, bool only_on_mismatch, OwnershipProgress* progress) {
  struct stat st{};
  if (::fstat(dir, &st) != 0) return Error::FromErrno(errno, "stat volume");
  if (only_on_mismatch && IsRight(st, group, kForDir)) return {};
  RETURN_IF_ERROR(
      sys::VisitTree(dir, [&](int object, const struct stat& entry, const std::string& name) {
        if (progress != nullptr) progress->NextFile();
        return Give(object, entry, group, name);
      }));
  // The top last: its state says that everything below is done.
  return Give(dir, st, group, "volume");
}

Result<void> GiveToGroupOf(const ::k8s::io::api::core::v1::Pod& pod, int dir,
                           OwnershipProgress* progress) {
  const auto& context = pod.spec().securitycontext();
  if (!context.has_fsgroup()) return {};
  return GiveToGroup(dir, static_cast<gid_t>(context.fsgroup()),
                     context.fsgroupchangepolicy() == "OnRootMismatch", progress);
}

}  // namespace holdfast::agent
