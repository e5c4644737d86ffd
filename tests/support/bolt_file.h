// SPDX-License-Identifier: Apache-2.0
// Files of bbolt in memory, damaged ones too: pages as agent/cli/containerd/bolt.h draws them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test_support {

inline constexpr size_t kBoltPage = 1024;
inline constexpr uint16_t kBoltBranch = 1, kBoltLeaf = 2;

template <class T>
std::string LittleEndian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF));
  }
  return bytes;
}

struct BoltEntry {
  std::string key, value;
  bool is_bucket = false;
};

inline std::string BoltHead(uint64_t id, uint16_t flags, size_t count, uint32_t overflow = 0) {
  return LittleEndian(id) + LittleEndian(flags) + LittleEndian(static_cast<uint16_t>(count)) +
         LittleEndian(overflow);
}

inline std::string BoltLeafPage(uint64_t id, const std::vector<BoltEntry>& entries,
                                uint32_t overflow = 0) {
  std::string page = BoltHead(id, kBoltLeaf, entries.size(), overflow);
  std::string data;
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t begin = (entries.size() - i) * 16 + data.size();
    page += LittleEndian(uint32_t{entries[i].is_bucket}) +
            LittleEndian(static_cast<uint32_t>(begin)) +
            LittleEndian(static_cast<uint32_t>(entries[i].key.size())) +
            LittleEndian(static_cast<uint32_t>(entries[i].value.size()));
    data += entries[i].key + entries[i].value;
  }
  return page + data;
}

inline std::string BoltBranchPage(uint64_t id, const std::vector<uint64_t>& below) {
  std::string page = BoltHead(id, kBoltBranch, below.size());
  for (const uint64_t page_below : below) {
    page += LittleEndian(uint32_t{0}) + LittleEndian(uint32_t{0}) + LittleEndian(page_below);
  }
  return page;
}

inline BoltEntry BoltBucketAt(const std::string& key, uint64_t root) {
  return {key, LittleEndian(root) + LittleEndian(uint64_t{0}), true};
}
inline BoltEntry BoltInlineBucket(const std::string& key, const std::vector<BoltEntry>& entries) {
  return {key, std::string(16, '\0') + BoltLeafPage(0, entries), true};
}

inline std::string BoltMeta(uint64_t transaction, uint64_t root, uint64_t end,
                            uint32_t page_size = kBoltPage) {
  std::string meta = LittleEndian(uint32_t{0xED0CDAED}) + LittleEndian(uint32_t{2}) +
                     LittleEndian(page_size) + LittleEndian(uint32_t{0}) + LittleEndian(root) +
                     LittleEndian(uint64_t{0}) + LittleEndian(~uint64_t{0}) + LittleEndian(end) +
                     LittleEndian(transaction);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : meta) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return BoltHead(0, 4, 0) + meta + LittleEndian(hash);
}

// Meta pages and these from page 2 on, each as long as it needs; root is 2.
inline std::string BoltFile(const std::vector<std::string>& pages, uint64_t transaction = 7) {
  std::string file;
  const auto add = [&file](const std::string& page) {
    file += page;
    file.resize((file.size() + kBoltPage - 1) / kBoltPage * kBoltPage);
  };
  std::string rest;
  for (const std::string& page : pages) add(page);
  rest.swap(file);
  const uint64_t end = 2 + rest.size() / kBoltPage;
  add(BoltMeta(transaction, 2, end));
  add(BoltMeta(transaction - 1, 2, end));
  return file + rest;
}

// Page 2 of containerd's metadata, whose namespace's images are the bucket at page 3.
inline std::string BoltImagesAt3(const std::string& name_space) {
  return BoltLeafPage(
      2, {BoltInlineBucket("v1", {BoltInlineBucket(name_space, {BoltBucketAt("images", 3)})})});
}

inline BoltEntry BoltImage(const std::string& name, const std::string& digest,
                           const std::string& size = "\x04") {
  return BoltInlineBucket(
      name,
      {BoltInlineBucket("target", {{"digest", digest}, {"mediatype", "type"}, {"size", size}})});
}

}  // namespace holdfast::test_support
