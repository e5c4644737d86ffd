// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/range_record.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::netproxy {
namespace {

constexpr char kFile[] = "ranges";
constexpr size_t kMaxBytes = 4 << 20;  // some 100,000 ranges

bool Has(const std::vector<Cidr>& ranges, const Cidr& range) {
  return std::ranges::find(ranges, range) != ranges.end();
}

std::vector<Cidr>* ListNamed(RangeRecord& record, std::string_view name) {
  if (name == "own") return &record.own;
  if (name == "former") return &record.former;
  if (name == "direct") return &record.direct;
  return nullptr;
}

}  // namespace

RangeRecord Renewed(RangeRecord record, std::vector<Cidr> own) {
  for (const Cidr& range : record.own) {
    if (!Has(own, range) && !Has(record.former, range)) record.former.push_back(range);
  }
  std::erase_if(record.former, [&](const Cidr& range) { return Has(own, range); });
  record.own = std::move(own);
  return record;
}

std::string FormatRanges(const RangeRecord& record) {
  std::string text;
  for (const Cidr& range : record.own) text += StrCat("own ", range.ToString(), "\n");
  for (const Cidr& range : record.former) text += StrCat("former ", range.ToString(), "\n");
  for (const Cidr& range : record.direct) text += StrCat("direct ", range.ToString(), "\n");
  return text;
}

Result<RangeRecord> ParseRanges(std::string_view text) {
  RangeRecord record;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t blank = line.find(' ');
    std::vector<Cidr>* list = ListNamed(record, line.substr(0, blank));
    auto range = blank == line.npos ? Result<Cidr>(InvalidArgument("no range"))
                                    : Cidr::Parse(std::string(line.substr(blank + 1)));
    if (list == nullptr || !range) {
      return InvalidArgument(
          StrCat("\"", line.substr(0, 100), "\" is no line of a record of ranges"));
    }
    list->push_back(*range);
  }
  return record;
}

Result<RangeRecord> LoadRanges(const DirFd& directory) {
  const auto text = sys::ReadFileAt(directory.get(), kFile, kMaxBytes);
  if (text) return WithContext(ParseRanges(*text), kFile);
  if (text.error().sys_errno() == ENOENT) return RangeRecord();
  return text.error();
}

Result<void> SaveRanges(const DirFd& directory, const RangeRecord& record) {
  return sys::WriteFileAtomicAt(directory.get(), kFile, FormatRanges(record), 0600,
                                /*durable=*/true);
}

}  // namespace holdfast::netproxy
