// SPDX-License-Identifier: Apache-2.0
// BoltReader: the buckets of a file of bbolt (go.etcd.io/bbolt, its version 2), read without its lock while the program
// that owns it may go on writing.
//
//   page      id u64, flags u16, count u16, overflow u32 (how many more pages it goes on over), then its elements
//   branch    elements: where the key is u32, its size u32, the page below u64
//   leaf      elements: flags u32 (1: a bucket), where key and value are u32, their sizes u32
//   bucket    a value: its root page u64, sequence u64; root 0: a leaf page follows at once
//   meta      pages 0 and 1, written in turn, one by each transaction: page size, root bucket, number, FNV-1a checksum
//
// bbolt never changes a page that the last transaction uses: what was read is whole if that transaction still is the last
// one when all of it was read (IsStillLast). Until then anything may stand in a page. Every number is checked before it is
// used, and depth and bytes are limited, so that nothing but an error (kInvalidArgument, kResourceExhausted) comes of a
// file that is damaged or made by somebody else. Single-thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::containerd {

// So many bytes from there on, fewer at the file's end.
using ReadAt = std::function<Result<std::string>(uint64_t offset, size_t size)>;

class BoltReader {
 public:
  // In the file, or within the value that names it.
  struct Bucket {
    uint64_t root = 0;
    std::string inline_page;
  };
  struct Entry {
    std::string_view key, value;  // as long as the call that shows them
    bool is_bucket = false;
  };
  using Visit = std::function<Result<void>(const Entry&)>;

  // The state that the last transaction left.
  static Result<BoltReader> Open(ReadAt read);

  const Bucket& root() const { return root_; }
  // Every entry, in the order of keys, until `visit` fails.
  Result<void> ForEach(const Bucket& bucket, const Visit& visit);
  // Of an entry that is one.
  Result<Bucket> BucketOf(const Entry& entry);
  // Looks at each entry: for buckets of few. Nothing when it is not there, or is no bucket.
  Result<std::optional<Bucket>> Find(const Bucket& bucket, std::string_view key);

  // No transaction ended since Open().
  Result<bool> IsStillLast() const;

 private:
  struct Meta {
    uint32_t page_size = 0;
    uint64_t root = 0;
    uint64_t end = 0;  // no page has this number or a higher one
    uint64_t transaction = 0;
  };

  BoltReader(ReadAt read, const Meta& meta);
  static std::optional<Meta> ParseMeta(std::string_view page);
  static Result<Meta> LastMeta(const ReadAt& read);
  Result<void> Spend(uint64_t bytes);
  Result<std::string> ReadPages(uint64_t id, uint64_t count);
  Result<std::string> ReadPage(uint64_t id);
  Result<void> Walk(std::string_view page, int depth, const Visit& visit);

  ReadAt read_;
  Meta meta_;
  Bucket root_;
  uint64_t bytes_left_;
};

}  // namespace holdfast::agent::containerd
