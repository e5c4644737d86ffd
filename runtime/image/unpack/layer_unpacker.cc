// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/layer_unpacker.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/sys/writeback.h"
#include "runtime/image/unpack/member_name.h"
#include "runtime/image/unpack/tar_reader.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr std::string_view kWhiteoutPrefix = ".wh.";
constexpr std::string_view kBookkeepingPrefix = ".wh..wh.";
constexpr std::string_view kOpaqueName = ".wh..wh..opq";
constexpr size_t kMaxXattrValue = 64 * 1024;

constexpr size_t kBlock = 4096;
// Small files cost less when they are synced together.
constexpr uint64_t kLeastWriteback = 256 << 10;

bool IsZero(std::string_view bytes) {
  return bytes.front() == 0 && bytes.substr(1) == bytes.substr(0, bytes.size() - 1);
}

// Bytes of `piece` before the next block that is all zeros; its first block, of `first` bytes, is
// not.
size_t UpToZeroBlock(std::string_view piece, size_t first) {
  size_t end = first;
  while (end < piece.size()) {
    const std::string_view block = piece.substr(end, kBlock);
    if (IsZero(block)) break;
    end += block.size();
  }
  return end;
}

Error LimitReached(std::string_view what, uint64_t limit) {
  return {Code::kResourceExhausted, StrCat("layer exceeds the limit of ", limit, " ", what)};
}

Error NoRoom(uint64_t room, std::string_view what) {
  return {Code::kResourceExhausted,
          StrCat("no room for images: the layer takes more than the ", room, " ", what,
                 " that it may of their file system; remove images or files, or see evictionHard")};
}

// Only what a container may bring: never trusted.*, never overlayfs' own keys, no labels.
bool KeepXattr(const std::string& key, const std::string& value) {
  if (value.size() > kMaxXattrValue || key.size() > 255) return false;
  if (key == "security.capability") return true;
  return key.starts_with("user.") && !key.starts_with("user.overlay.");
}

bool ValidId(int64_t id) { return id >= 0 && id < 0xffffffffLL; }

Result<Attributes> AttributesOf(const Member& member) {
  if (!ValidId(member.uid) || !ValidId(member.gid)) {
    return InvalidArgument(StrCat("member \"", Printable(member.name), "\": owner out of range"));
  }
  Attributes attributes;
  attributes.permissions = member.permissions;
  attributes.uid = static_cast<uid_t>(member.uid);
  attributes.gid = static_cast<gid_t>(member.gid);
  attributes.mtime = member.mtime;
  for (const auto& [key, value] : member.xattrs) {
    if (KeepXattr(key, value)) attributes.xattrs.emplace_back(key, value);
  }
  return attributes;
}

enum class Mark : uint8_t { kNone, kIgnored, kWhiteout, kOpaque };

// What a clean name says by itself. Reserved names anywhere but in the last part are refused, those
// of aufs' bookkeeping are skipped with everything below.
Result<Mark> MarkOf(std::string_view name) {
  size_t begin = 0;
  while (begin <= name.size()) {
    size_t end = name.find('/', begin);
    if (end == std::string_view::npos) end = name.size();
    const std::string_view part = name.substr(begin, end - begin);
    const bool last = end == name.size();
    begin = end + 1;
    if (!part.starts_with(kWhiteoutPrefix)) continue;
    if (part == kOpaqueName && last) return Mark::kOpaque;
    if (part.starts_with(kBookkeepingPrefix)) return Mark::kIgnored;
    const std::string_view hidden = part.substr(kWhiteoutPrefix.size());
    if (!last || hidden.empty() || hidden == "." || hidden == "..") {
      return InvalidArgument(StrCat("member \"", Printable(name), "\": not a valid whiteout"));
    }
    return Mark::kWhiteout;
  }
  return Mark::kNone;
}

class LayerWriter {
 public:
  LayerWriter(DirFd root, const UnpackLimits& limits) : tree_(std::move(root)), limits_(limits) {}

  Result<void> Add(TarReader& reader, const Member& member) {
    // A name may bring a thousand directories, which cost as much as members.
    const uint64_t made = ++members_ + tree_.implicit_made();
    if (made > limits_.members) return LimitReached("members", limits_.members);
    if (made > limits_.room_files) return NoRoom(limits_.room_files, "inodes");
    if (member.type == S_IFDIR) RETURN_IF_ERROR(Take(kBlock));
    ASSIGN_OR_RETURN(const std::string name, CleanMemberName(member.name));
    ASSIGN_OR_RETURN(const Mark mark, MarkOf(name));
    switch (mark) {
      case Mark::kIgnored:
        return {};
      case Mark::kOpaque:
        return tree_.Opaque(std::string(ParentOf(name)));
      case Mark::kWhiteout:
        return AddWhiteout(name);
      case Mark::kNone:
        return AddObject(reader, member, name);
    }
    return {};
  }

  Result<LayerReport> Finish() {
    ASSIGN_OR_RETURN(LayerReport report, tree_.Finish());
    report.members = members_;
    report.bytes = bytes_;
    return report;
  }

 private:
  // Bytes on disk, in blocks.
  Result<void> Take(uint64_t bytes) {
    taken_ += bytes;
    if (taken_ + tree_.implicit_made() * kBlock <= limits_.room_bytes) return {};
    return NoRoom(limits_.room_bytes, "bytes");
  }

  Result<void> AddWhiteout(const std::string& name) {
    std::string hidden(ParentOf(name));
    if (!hidden.empty()) hidden.push_back('/');
    hidden.append(LeafOf(name).substr(kWhiteoutPrefix.size()));
    return tree_.Whiteout(hidden);
  }

  Result<void> AddObject(TarReader& reader, const Member& member, const std::string& name) {
    ASSIGN_OR_RETURN(const Attributes attributes, AttributesOf(member));
    switch (member.type) {
      case 0:
        return AddHardlink(member, name);
      case S_IFREG:
        return AddFile(reader, member, name, attributes);
      case S_IFDIR:
        return tree_.Directory(name, attributes);
      case S_IFLNK:
        return tree_.Symlink(name, member.target, attributes);
      case S_IFCHR:
      case S_IFBLK:
      case S_IFIFO:
        return tree_.Node(name, member.type, member.device, attributes);
      default:
        return InvalidArgument(StrCat("member \"", Printable(member.name), "\": unknown type"));
    }
  }

  Result<void> AddHardlink(const Member& member, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string target, CleanMemberName(member.target));
    return tree_.Hardlink(name, target);
  }

  Result<void> AddFile(TarReader& reader, const Member& member, const std::string& name,
                       const Attributes& attributes) {
    if (member.size > limits_.apparent_size) {
      return LimitReached("bytes in one file", limits_.apparent_size);
    }
    ASSIGN_OR_RETURN(UniqueFd file, tree_.CreateFile(name));
    // The disk gets to work while the rest is unpacked: the agent syncs all of it at the end.
    sys::Writeback writeback;
    const auto write = [&](std::string_view piece, uint64_t offset) -> Result<void> {
      RETURN_IF_ERROR(Write(file.get(), name, piece, offset));
      writeback.Reached(file.get(), offset);
      return {};
    };
    RETURN_IF_ERROR(WithContext(reader.ReadData(write), Printable(name)));
    // A hole at the end has no data block.
    if (::ftruncate(file.get(), static_cast<off_t>(member.size)) != 0) {
      return Error::FromErrno(errno, StrCat("truncate ", Printable(name)));
    }
    if (member.size >= kLeastWriteback) writeback.Rest(file.get());
    return tree_.FinishFile(file.get(), name, attributes);
  }

  Result<void> Write(int file, const std::string& name, std::string_view piece, uint64_t offset) {
    bytes_ += piece.size();
    if (bytes_ > limits_.bytes) return LimitReached("bytes", limits_.bytes);
    if (offset > limits_.apparent_size) {
      return LimitReached("bytes in one file", limits_.apparent_size);
    }
    while (!piece.empty()) {
      // Blocks of zeros stay holes: the file's length is set at the end.
      const size_t block = std::min(piece.size(), kBlock - offset % kBlock);
      if (IsZero(piece.substr(0, block))) {
        piece.remove_prefix(block);
        offset += block;
        continue;
      }
      const size_t size = UpToZeroBlock(piece, block);
      RETURN_IF_ERROR(Take((offset % kBlock + size + kBlock - 1) / kBlock * kBlock));
      const ssize_t n = ::pwrite(file, piece.data(), size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error::FromErrno(errno, StrCat("write ", Printable(name)));
      piece.remove_prefix(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return {};
  }

  TreeWriter tree_;
  UnpackLimits limits_;
  uint64_t members_ = 0;
  uint64_t bytes_ = 0;
  uint64_t taken_ = 0;
};

// libarchive stops at the end-of-archive mark; padding after it belongs to the digest all the same.
Result<void> Drain(int fd) {
  std::array<char, 64 * 1024> buffer;
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n == 0) return {};
    if (n < 0 && errno != EINTR)
      return Error::FromErrno(errno, "read after the end of the archive");
  }
}

}  // namespace

Result<LayerReport> UnpackLayer(int fd, DirFd root, const UnpackLimits& limits) {
  LayerWriter writer(std::move(root), limits);
  ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(fd));
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<Member> member, reader.Next());
    if (!member) break;
    RETURN_IF_ERROR(writer.Add(reader, *member));
  }
  RETURN_IF_ERROR(Drain(fd));
  return writer.Finish();
}

}  // namespace holdfast::runtime::unpack
