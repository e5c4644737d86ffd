// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr size_t kReadSize = 256 * 1024;

std::string Text(const char* text) { return text != nullptr ? std::string(text) : std::string(); }

void CopyXattrs(archive_entry* entry, Member& member) {
  const char* key = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  ::archive_entry_xattr_reset(entry);
  while (::archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
    if (key != nullptr) {
      member.xattrs.emplace_back(key, std::string(static_cast<const char*>(value), size));
    }
  }
}

}  // namespace

struct TarReader::State {
  archive* reader = ::archive_read_new();
  // pax names are UTF-8; libarchive converts them to the thread's character set. C.UTF-8 is built
  // into glibc, so this needs no file. Bytes that are no UTF-8 are passed through.
  locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  uint64_t size = 0;   // of the current member
  bool ended = false;  // with a last member that was whole but for its padding
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    ::archive_read_free(reader);
    if (utf8 != nullptr) ::freelocale(utf8);
  }

  Error Damaged(std::string_view call) const {
    const char* why = ::archive_error_string(reader);
    return InvalidArgument(StrCat(call, ": ", why != nullptr ? why : "damaged archive"));
  }
};

TarReader::TarReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;
TarReader::~TarReader() = default;

Result<TarReader> TarReader::Open(int fd) {
  auto state = std::make_unique<State>();
  if (state->reader == nullptr || state->utf8 == nullptr) return Internal("libarchive: no reader");
  ::archive_read_support_format_tar(state->reader);
  ::archive_read_support_format_empty(state->reader);
  if (::archive_read_open_fd(state->reader, fd, kReadSize) != ARCHIVE_OK) {
    return state->Damaged("open tar");
  }
  return TarReader(std::move(state));
}

Result<std::optional<Member>> TarReader::Next() {
  if (state_->ended) return std::optional<Member>();
  archive_entry* entry = nullptr;
  const locale_t before = ::uselocale(state_->utf8);
  const int status = ::archive_read_next_header(state_->reader, &entry);
  Member member;
  if (status == ARCHIVE_OK || status == ARCHIVE_WARN) {
    member.name = Text(::archive_entry_pathname(entry));
    const char* hardlink = ::archive_entry_hardlink(entry);
    member.target = Text(hardlink != nullptr ? hardlink : ::archive_entry_symlink(entry));
    member.type = hardlink != nullptr ? 0 : ::archive_entry_filetype(entry);
  }
  ::uselocale(before);
  if (status == ARCHIVE_EOF) return std::optional<Member>();
  // A warning that left a usable name is about what we do not keep (character sets, odd headers).
  if (status != ARCHIVE_OK && (status != ARCHIVE_WARN || member.name.empty())) {
    return state_->Damaged("read tar member");
  }
  member.permissions = ::archive_entry_perm(entry) & 07777;
  member.uid = ::archive_entry_uid(entry);
  member.gid = ::archive_entry_gid(entry);
  member.mtime = {::archive_entry_mtime(entry), ::archive_entry_mtime_nsec(entry)};
  if (::archive_entry_size_is_set(entry) != 0) {
    const int64_t size = ::archive_entry_size(entry);
    if (size < 0) return InvalidArgument("read tar member: negative size");
    member.size = static_cast<uint64_t>(size);
  }
  state_->size = member.size;
  member.device = ::archive_entry_rdev(entry);
  CopyXattrs(entry, member);
  return std::optional<Member>(std::move(member));
}

Result<void> TarReader::ReadData(
    const std::function<Result<void>(std::string_view, uint64_t)>& sink) {
  uint64_t end = 0;
  for (;;) {
    const void* piece = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int status = ::archive_read_data_block(state_->reader, &piece, &size, &offset);
    if (status == ARCHIVE_EOF) return {};
    // The file is whole, and its last block is not: the archive ends there, as umoci's `insert`
    // writes it and Go's reader takes it. (A failed read has an errno above 0.)
    state_->ended =
        status == ARCHIVE_FATAL && end == state_->size && ::archive_errno(state_->reader) < 0;
    if (state_->ended) return {};
    if (status != ARCHIVE_OK) return state_->Damaged("read tar data");
    RETURN_IF_ERROR(sink({static_cast<const char*>(piece), size}, static_cast<uint64_t>(offset)));
    end = static_cast<uint64_t>(offset) + size;
  }
}

}  // namespace holdfast::runtime::unpack
