// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/address_book.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/lock_file.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/podnet/former_records.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kMaxLastBytes = 1 << 20;

// At least one address besides network, gateway and broadcast.
Result<void> ValidateRange(const Cidr& range) {
  const int host_bits = range.network.MaxPrefix() - range.prefix;
  if (host_bits >= 2) return {};
  return InvalidArgument(
      StrCat("pod CIDR ", range.ToString(), ": too small, at least 4 addresses are needed"));
}

bool IsReserved(const Cidr& range, const IpAddress& a) {
  return a == range.network || a == AddressBook::GatewayOf(range) || (!a.v6 && a == range.Last());
}

}  // namespace

Result<AddressBook> AddressBook::Open(const std::string& directory) {
  AddressBook book;
  ASSIGN_OR_RETURN(book.directory_, sys::MakeDirs(AT_FDCWD, directory, 0700));
  auto lock = sys::TakeLock(book.directory_.get(), "lock");
  if (!lock && lock.error().code() == Code::kConflict) {
    return Conflict(StrCat("lock ", directory, ": another agent uses it"));
  }
  ASSIGN_OR_RETURN(book.lock_, WithContext(std::move(lock), directory));
  auto loaded = book.Load();
  if (!loaded) return std::move(loaded.error()).Wrap(StrCat("read address book ", directory));
  return book;
}

Result<void> AddressBook::CheckRanges(const std::vector<Cidr>& ranges) {
  for (const Cidr& range : ranges) RETURN_IF_ERROR(ValidateRange(range));
  return {};
}

Result<void> AddressBook::SetRanges(const std::vector<Cidr>& ranges) {
  RETURN_IF_ERROR(CheckRanges(ranges));
  std::vector<IpAddress> last;
  for (const Cidr& range : ranges) {
    const auto known =
        std::ranges::find_if(last_, [&](const IpAddress& a) { return range.Contains(a); });
    last.push_back(known == last_.end() ? GatewayOf(range) : *known);
  }
  ranges_ = ranges;
  last_ = std::move(last);
  return {};
}

Result<void> AddressBook::Load() {
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(directory_.get(), "."));
  FormerRecords former = ReadFormerRecords(directory_);
  ASSIGN_OR_RETURN(DirFd directory, sys::OpenDirAt(directory_.get(), "."));
  ASSIGN_OR_RETURN(sys::Journal::Opened opened,
                   sys::Journal::Open(std::move(directory), "pods.journal",
                                      sys::Journal::Lasting::kProcess, former.written_at));
  journal_ = std::move(opened.journal);
  problems_ = std::move(opened.problems);
  for (const auto& [uid, text] : opened.values) {
    LoadRecord(uid, text, opened.flagged.contains(uid));
  }
  TakeOver(std::move(former));
  for (const auto& [uid, record] : records_) {
    used_.insert(record.addresses.begin(), record.addresses.end());
  }
  return LoadLast();
}

void AddressBook::LoadRecord(const std::string& uid, const std::string& text, bool releasing) {
  auto record = ParseRecord(PodUid(uid), text);
  if (record) {
    record->releasing = releasing;
    records_.emplace(record->uid, std::move(*record));
    return;
  }
  problems_.push_back(StrCat(record.error().message(), ", dropped"));
  // Where it cannot be removed it is found again by the next start, which costs nothing.
  (void)journal_->Remove(uid);
}

void AddressBook::TakeOver(FormerRecords former) {
  problems_.insert(problems_.end(), former.problems.begin(), former.problems.end());
  Result<void> taken;
  for (PodRecord& record : former.records) {
    if (records_.contains(record.uid)) continue;  // taken over by one that was killed then
    if (auto written = WriteRecord(record); !written) taken = std::move(written);
    const PodUid uid = record.uid;
    records_.emplace(uid, std::move(record));
  }
  // What cannot be written now (a full disk) counts all the same, and is found again.
  if (taken) taken = RemoveFormerRecords(directory_);
  if (!taken) problems_.push_back(taken.error().message());
}

Result<void> AddressBook::LoadLast() {
  auto last_file = sys::OpenAt(directory_.get(), "last", O_RDWR | O_CREAT, 0600);
  // Without it the search for a free address begins at the lowest one; that it cannot be written is
  // told when an address is given.
  if (!last_file) return {};
  last_file_ = std::move(*last_file);
  ASSIGN_OR_RETURN(const std::string last, sys::ReadFd(last_file_.get(), kMaxLastBytes));
  for (size_t begin = 0; begin < last.size();) {
    const size_t end = std::min(last.find('\n', begin), last.size());
    auto address = IpAddress::Parse(last.substr(begin, last.find_first_of(" \n", begin) - begin));
    if (address) last_.push_back(*address);
    begin = end + 1;
  }
  return {};
}

const PodRecord* AddressBook::Find(const PodUid& uid) const {
  const auto it = records_.find(uid);
  return it == records_.end() ? nullptr : &it->second;
}

Result<IpAddress> AddressBook::NextFree(size_t range) const {
  const Cidr& cidr = ranges_[range];
  IpAddress candidate = last_[range];
  // At most one round: every address in use stops the search once.
  do {
    candidate = candidate == cidr.Last() ? cidr.network : candidate.Next();
    if (!IsReserved(cidr, candidate) && !used_.contains(candidate) &&
        !occupied_.contains(candidate)) {
      return candidate;
    }
  } while (candidate != last_[range]);
  return Error(Code::kResourceExhausted,
               StrCat("no IP addresses available in range set: ", cidr.network.ToString(), "-",
                      cidr.Last().ToString()));
}

Result<void> AddressBook::Allocate(PodRecord record) {
  RETURN_IF_ERROR(ValidateRecord(record));
  record.addresses.clear();
  for (size_t i = 0; i < ranges_.size(); ++i) {
    ASSIGN_OR_RETURN(const IpAddress address, NextFree(i));
    record.addresses.push_back(address);
  }
  const std::vector<IpAddress> previous = std::exchange(last_, record.addresses);
  auto written = WriteLast();
  if (written) {
    HOLDFAST_PAUSE_POINT("podnet.book.last_written");
    written = WriteRecord(record);
  }
  if (!written) {
    last_ = previous;
    return written;
  }
  HOLDFAST_PAUSE_POINT("podnet.book.record_written");
  used_.insert(record.addresses.begin(), record.addresses.end());
  const PodUid uid = record.uid;
  records_.insert_or_assign(uid, std::move(record));
  return {};
}

Result<void> AddressBook::Update(const PodRecord& record) {
  RETURN_IF_ERROR(ValidateRecord(record));
  RETURN_IF_ERROR(WriteRecord(record));
  HOLDFAST_PAUSE_POINT("podnet.book.record_updated");
  records_.insert_or_assign(record.uid, record);
  return {};
}

Result<void> AddressBook::Release(const PodUid& uid) {
  const auto it = records_.find(uid);
  if (it == records_.end() || it->second.releasing) return {};
  // Takes no space: on a full disk pods can go.
  RETURN_IF_ERROR(journal_->Flag(uid.value));
  it->second.releasing = true;
  return {};
}

Result<void> AddressBook::Free(const PodUid& uid) {
  const auto it = records_.find(uid);
  if (it == records_.end()) return {};
  RETURN_IF_ERROR(journal_->Remove(uid.value));
  HOLDFAST_PAUSE_POINT("podnet.book.record_removed");
  for (const IpAddress& a : it->second.addresses) used_.erase(a);
  records_.erase(it);
  return {};
}

Result<void> AddressBook::LeaveAsFiles() {
  std::vector<PodRecord> records;
  for (const auto& [uid, record] : records_) records.push_back(record);
  RETURN_IF_ERROR(WriteFormerRecords(directory_, records));
  return journal_->Unlink();
}

// In place: replacing a file makes ext4 write it out at once, which costs more than a whole veth.
Result<void> AddressBook::WriteLast() {
  std::string text;
  for (const IpAddress& a : last_) {
    std::string line = a.ToString();
    line.resize(INET6_ADDRSTRLEN, ' ');  // of one length, so that nothing of an older one is left
    text += line + "\n";
  }
  if (!last_file_) {
    ASSIGN_OR_RETURN(last_file_, sys::OpenAt(directory_.get(), "last", O_RDWR | O_CREAT, 0600));
  }
  if (::pwrite(last_file_.get(), text.data(), text.size(), 0) !=
      static_cast<ssize_t>(text.size())) {
    return Error::FromErrno(errno, "write the last addresses given");
  }
  return {};
}

Result<void> AddressBook::WriteRecord(const PodRecord& record) {
  RETURN_IF_ERROR(journal_->Put(record.uid.value, FormatRecord(record)));
  return record.releasing ? journal_->Flag(record.uid.value) : Result<void>();
}

}  // namespace holdfast::netproxy
