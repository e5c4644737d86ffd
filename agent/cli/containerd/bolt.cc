// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/bolt.h"

#include <bit>
#include <concepts>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::containerd {
namespace {

constexpr uint32_t kMagic = 0xED0CDAED;
constexpr uint32_t kVersion = 2;
constexpr uint16_t kBranchPage = 1, kLeafPage = 2, kMetaPage = 4;
constexpr uint32_t kBucketEntry = 1;

constexpr size_t kPageHeader = 16, kElement = 16, kBucketHeader = 16;
constexpr size_t kMetaSize = 64, kChecksumAt = 56;

// bbolt's are the machine's: 4 KiB to 64 KiB. Its tests have smaller ones.
constexpr uint32_t kMinPageSize = 1024, kMaxPageSize = 64 * 1024;
constexpr uint64_t kMaxPages = uint64_t{1} << 32;
constexpr uint64_t kMaxPageBytes = 16 << 20;  // with those it goes on over
constexpr uint64_t kMaxBytes = 256 << 20;     // of all that one reader reads
constexpr int kMaxDepth = 32;

// Little-endian, as every machine has it that this is built for. Who calls knows that it is there.
template <std::unsigned_integral T>
T Number(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(value << 7 << 1 | static_cast<unsigned char>(bytes[at + i]));
  }
  return value;
}

uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

Error Damaged(std::string_view what) { return InvalidArgument(StrCat("damaged: ", what)); }

}  // namespace

BoltReader::BoltReader(ReadAt read, const Meta& meta)
    : read_(std::move(read)), meta_(meta), root_{meta.root, ""}, bytes_left_(kMaxBytes) {}

std::optional<BoltReader::Meta> BoltReader::ParseMeta(std::string_view page) {
  if (page.size() < kPageHeader + kMetaSize) return std::nullopt;
  const std::string_view meta = page.substr(kPageHeader, kMetaSize);
  if (Number<uint16_t>(page, 8) != kMetaPage || Number<uint32_t>(meta, 0) != kMagic ||
      Number<uint32_t>(meta, 4) != kVersion ||
      Number<uint64_t>(meta, kChecksumAt) != Fnv1a(meta.substr(0, kChecksumAt))) {
    return std::nullopt;
  }
  const Meta read{.page_size = Number<uint32_t>(meta, 8),
                  .root = Number<uint64_t>(meta, 16),
                  .end = Number<uint64_t>(meta, 40),
                  .transaction = Number<uint64_t>(meta, 48)};
  const bool sound = std::has_single_bit(read.page_size) && read.page_size >= kMinPageSize &&
                     read.page_size <= kMaxPageSize && read.end <= kMaxPages;
  return sound ? std::optional(read) : std::nullopt;
}

// Where the second one is follows from the first; of a file whose first is damaged it is looked for.
Result<BoltReader::Meta> BoltReader::LastMeta(const ReadAt& read) {
  ASSIGN_OR_RETURN(const std::string first_page, read(0, kPageHeader + kMetaSize));
  std::optional<Meta> last = ParseMeta(first_page);
  const uint32_t known_size = last ? last->page_size : 0;
  for (uint32_t size = kMinPageSize; size <= kMaxPageSize; size *= 2) {
    if (known_size != 0 && size != known_size) continue;
    ASSIGN_OR_RETURN(const std::string page, read(size, kPageHeader + kMetaSize));
    const std::optional<Meta> second = ParseMeta(page);
    if (!second || second->page_size != size) continue;
    if (!last || second->transaction > last->transaction) last = second;
  }
  if (!last) return InvalidArgument("no database of bbolt, or both of its meta pages are damaged");
  return *last;
}

Result<BoltReader> BoltReader::Open(ReadAt read) {
  ASSIGN_OR_RETURN(const Meta meta, LastMeta(read));
  return BoltReader(std::move(read), meta);
}

Result<bool> BoltReader::IsStillLast() const {
  ASSIGN_OR_RETURN(const Meta last, LastMeta(read_));
  return last.transaction == meta_.transaction;
}

Result<void> BoltReader::Spend(uint64_t bytes) {
  if (bytes > bytes_left_) {
    return Error(Code::kResourceExhausted, StrCat("more than ", kMaxBytes, " bytes to read"));
  }
  bytes_left_ -= bytes;
  return {};
}

Result<std::string> BoltReader::ReadPages(uint64_t id, uint64_t count) {
  if (id < 2 || id >= meta_.end || count > meta_.end - id) {
    return Damaged(StrCat("page ", id, " lies behind the last one"));
  }
  const uint64_t size = count * meta_.page_size;
  if (size > kMaxPageBytes) return Damaged(StrCat("page ", id, " is too large"));
  RETURN_IF_ERROR(Spend(size));
  ASSIGN_OR_RETURN(std::string page, read_(id * meta_.page_size, size));
  if (page.size() != size) return Damaged(StrCat("the file ends within page ", id));
  return page;
}

Result<std::string> BoltReader::ReadPage(uint64_t id) {
  ASSIGN_OR_RETURN(std::string page, ReadPages(id, 1));
  const auto overflow = Number<uint32_t>(page, 12);
  if (Number<uint64_t>(page, 0) != id) return Damaged(StrCat("page ", id, " is another one"));
  if (overflow == 0) return page;
  return ReadPages(id, uint64_t{overflow} + 1);
}

Result<void> BoltReader::Walk(std::string_view page, int depth, const Visit& visit) {
  if (depth > kMaxDepth) return Damaged("pages are nested too deeply");
  if (page.size() < kPageHeader) return Damaged("a bucket that ends within its page's head");
  const auto flags = Number<uint16_t>(page, 8);
  const auto count = Number<uint16_t>(page, 10);
  if (flags != kBranchPage && flags != kLeafPage) {
    return Damaged("a page that is neither branch nor leaf");
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t at = kPageHeader + i * kElement;
    if (page.size() - kPageHeader < (i + 1) * kElement)
      return Damaged("elements behind a page's end");
    if (flags == kBranchPage) {
      ASSIGN_OR_RETURN(const std::string below, ReadPage(Number<uint64_t>(page, at + 8)));
      RETURN_IF_ERROR(Walk(below, depth + 1, visit));
      continue;
    }
    const uint64_t begin = at + Number<uint32_t>(page, at + 4);
    const auto key_size = Number<uint32_t>(page, at + 8);
    const auto value_size = Number<uint32_t>(page, at + 12);
    if (begin + key_size + value_size > page.size()) return Damaged("an entry behind a page's end");
    RETURN_IF_ERROR(visit({.key = page.substr(begin, key_size),
                           .value = page.substr(begin + key_size, value_size),
                           .is_bucket = (Number<uint32_t>(page, at) & kBucketEntry) != 0}));
  }
  return {};
}

Result<void> BoltReader::ForEach(const Bucket& bucket, const Visit& visit) {
  if (bucket.root == 0) return Walk(bucket.inline_page, 0, visit);
  ASSIGN_OR_RETURN(const std::string page, ReadPage(bucket.root));
  return Walk(page, 0, visit);
}

Result<BoltReader::Bucket> BoltReader::BucketOf(const Entry& entry) {
  if (entry.value.size() < kBucketHeader) return Damaged("a bucket that ends within its head");
  Bucket bucket{.root = Number<uint64_t>(entry.value, 0), .inline_page = ""};
  if (bucket.root == 0) {
    RETURN_IF_ERROR(Spend(entry.value.size()));
    bucket.inline_page = entry.value.substr(kBucketHeader);
  }
  return bucket;
}

Result<std::optional<BoltReader::Bucket>> BoltReader::Find(const Bucket& bucket,
                                                           std::string_view key) {
  std::optional<Bucket> found;
  RETURN_IF_ERROR(ForEach(bucket, [&](const Entry& entry) -> Result<void> {
    if (!entry.is_bucket || entry.key != key) return {};
    ASSIGN_OR_RETURN(found, BucketOf(entry));
    return {};
  }));
  return found;
}

}  // namespace holdfast::agent::containerd
