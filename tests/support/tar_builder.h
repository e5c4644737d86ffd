// SPDX-License-Identifier: Apache-2.0
// TarBuilder: archives in memory, hostile ones too. Link with libarchive.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

struct TarMember {
  std::string name;
  mode_t mode = S_IFREG | 0644;
  std::string content = {};
  std::string link = {};  // target of a symbolic link; with `hardlink` of a hard link
  bool hardlink = false;
  unsigned uid = 0;
  unsigned gid = 0;
  dev_t device = 0;
  int64_t mtime = 1'600'000'000;
  std::vector<std::pair<std::string, std::string>> xattrs = {};
};

inline TarMember File(std::string name, std::string content, mode_t permissions = 0644) {
  return {.name = std::move(name), .mode = S_IFREG | permissions, .content = std::move(content)};
}
inline TarMember Dir(std::string name, mode_t permissions = 0755) {
  return {.name = std::move(name), .mode = S_IFDIR | permissions};
}
inline TarMember Link(std::string name, std::string target) {
  return {.name = std::move(name), .mode = S_IFLNK | 0777, .link = std::move(target)};
}
inline TarMember Hardlink(std::string name, std::string target) {
  return {.name = std::move(name), .link = std::move(target), .hardlink = true};
}

enum class TarPacking { kPlain, kGzip, kZstd };

// pax format; names are written as they are, so ".." and absolute ones stay.
inline std::string BuildTar(const std::vector<TarMember>& members,
                            TarPacking packing = TarPacking::kPlain, bool gnu = false) {
  std::string out;
  archive* writer = ::archive_write_new();
  if (gnu) {
    ::archive_write_set_format_gnutar(writer);
  } else {
    ::archive_write_set_format_pax_restricted(writer);
  }
  if (packing == TarPacking::kGzip) ::archive_write_add_filter_gzip(writer);
  if (packing == TarPacking::kZstd) ::archive_write_add_filter_zstd(writer);
  ::archive_write_set_bytes_in_last_block(writer, 1);
  const auto append = [](archive*, void* to, const void* data, size_t size) -> la_ssize_t {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
    return static_cast<la_ssize_t>(size);
  };
  ::archive_write_open(writer, &out, nullptr, append, nullptr);
  for (const TarMember& m : members) {
    archive_entry* entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, m.name.c_str());
    ::archive_entry_set_mode(entry, m.mode);
    ::archive_entry_set_uid(entry, m.uid);
    ::archive_entry_set_gid(entry, m.gid);
    ::archive_entry_set_mtime(entry, m.mtime, 0);
    ::archive_entry_set_rdev(entry, m.device);
    if (m.hardlink) {
      ::archive_entry_set_hardlink(entry, m.link.c_str());
    } else if (S_ISLNK(m.mode)) {
      ::archive_entry_set_symlink(entry, m.link.c_str());
    } else if (S_ISREG(m.mode)) {
      ::archive_entry_set_size(entry, static_cast<la_int64_t>(m.content.size()));
    }
    for (const auto& [key, value] : m.xattrs) {
      ::archive_entry_xattr_add_entry(entry, key.c_str(), value.data(), value.size());
    }
    ::archive_write_header(writer, entry);
    if (!m.content.empty()) ::archive_write_data(writer, m.content.data(), m.content.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(writer);
  ::archive_write_free(writer);
  return out;
}

}  // namespace holdfast::test
