// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/archive_splitter.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/unpack/member_name.h"
#include "runtime/image/unpack/tar_reader.h"

namespace holdfast::runtime::unpack {
namespace {

Result<uint64_t> WriteNumbered(TarReader& reader, int directory, size_t number, uint64_t limit) {
  ASSIGN_OR_RETURN(UniqueFd file, sys::OpenAt(directory, std::to_string(number),
                                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  uint64_t written = 0;
  RETURN_IF_ERROR(reader.ReadData([&](std::string_view piece, uint64_t offset) -> Result<void> {
    // A hole would make the content differ from what its digest was taken of; no writer makes one.
    if (offset != written) return InvalidArgument("sparse member in an image archive");
    written += piece.size();
    if (written > limit) return Error(Code::kResourceExhausted, "archive exceeds its size limit");
    return sys::WriteAll(file.get(), piece);
  }));
  return written;
}

}  // namespace

Result<bool> IsImageArchive(int fd) {
  ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(fd));
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<Member> member, reader.Next());
    if (!member) return false;
    if (member->type != S_IFREG) continue;
    const auto name = CleanMemberName(member->name);
    if (name && (*name == "manifest.json" || *name == "oci-layout")) return true;
  }
}

Result<SplitArchive> SplitImageArchive(int fd, int directory, const SplitLimits& limits) {
  ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(fd));
  SplitArchive archive;
  std::set<std::string> names;
  uint64_t left = limits.bytes;
  for (uint64_t members = 1;; ++members) {
    ASSIGN_OR_RETURN(const std::optional<Member> member, reader.Next());
    if (!member) return archive;
    if (members > limits.members) {
      return Error(Code::kResourceExhausted,
                   StrCat("archive exceeds the limit of ", limits.members, " members"));
    }
    if (member->type == S_IFDIR) continue;
    ASSIGN_OR_RETURN(const std::string name, CleanMemberName(member->name));
    if (!names.insert(name).second) {
      return InvalidArgument(StrCat("member \"", Printable(name), "\" appears twice"));
    }
    if (member->type == S_IFREG) {
      ASSIGN_OR_RETURN(const uint64_t size,
                       WriteNumbered(reader, directory, archive.files.size(), left));
      left -= size;
      archive.files.push_back(name);
    } else if (member->type == S_IFLNK || member->type == 0) {
      // A hard link names its target from the top; written so that both kinds resolve alike.
      archive.links.emplace_back(name, member->type == 0 ? "/" + member->target : member->target);
    } else {
      return InvalidArgument(
          StrCat("member \"", Printable(name), "\": no file of an image archive"));
    }
  }
}

}  // namespace holdfast::runtime::unpack
