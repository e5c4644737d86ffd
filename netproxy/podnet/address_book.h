// SPDX-License-Identifier: Apache-2.0
// AddressBook: which pod holds which addresses; in memory, mirrored in a journal (record.h has the
// drawing). An address is given round-robin from the last one, never twice at a time. One thread
// at a time. It knows nothing of interfaces: who frees a record has seen them gone.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/journal.h"
#include "netproxy/podnet/record.h"

namespace holdfast::netproxy {

struct FormerRecords;

class AddressBook {
 public:
  // Opens or makes the directory and takes its lock; kConflict while another process holds it.
  // Records that cannot be read are removed and told by problems(); their pods have no
  // address until they are made anew. Those of a former release are taken over
  // (former_records.h).
  static Result<AddressBook> Open(const std::string& directory);

  // The first usable address of a range; the node's own, never given to a pod.
  static IpAddress GatewayOf(const Cidr& range) { return range.network.Next(); }

  const PodRecord* Find(const PodUid& uid) const;
  const std::map<PodUid, PodRecord>& records() const { return records_; }
  const std::vector<std::string>& problems() const { return problems_; }

  // kInvalidArgument for a range that is too small.
  static Result<void> CheckRanges(const std::vector<Cidr>& ranges);
  // From now on addresses are given out of these, out of none before the first call; records keep
  // theirs. As CheckRanges(), and then nothing changes.
  Result<void> SetRanges(const std::vector<Cidr>& ranges);
  // Fills record.addresses with one free address per range and keeps the record.
  // kResourceExhausted when a range has none.
  Result<void> Allocate(PodRecord record);
  // Writes a changed record of a known pod, which is live again if it was being released; the
  // addresses must be the same.
  Result<void> Update(const PodRecord& record);
  // Marks the pod's record; its addresses stay taken until Free().
  Result<void> Release(const PodUid& uid);
  // Forgets the pod; absent is success.
  Result<void> Free(const PodUid& uid);

  // Addresses that the kernel still routes to a pod although no record names them.
  void SetOccupied(std::set<IpAddress> addresses) { occupied_ = std::move(addresses); }

  // Of all pods, as a release without the journal reads them. Nothing else may follow.
  Result<void> LeaveAsFiles();

  DirFd& directory() { return directory_; }

 private:
  AddressBook() = default;
  Result<void> Load();
  void LoadRecord(const std::string& uid, const std::string& text, bool releasing);
  void TakeOver(FormerRecords former);
  Result<void> LoadLast();
  Result<IpAddress> NextFree(size_t range) const;
  Result<void> WriteLast();
  Result<void> WriteRecord(const PodRecord& record);

  std::vector<Cidr> ranges_;
  std::vector<IpAddress> last_;  // per range; before there are any, as they were read
  std::map<PodUid, PodRecord> records_;
  std::set<IpAddress> used_;      // by records
  std::set<IpAddress> occupied_;  // by the kernel
  std::vector<std::string> problems_;
  DirFd directory_;
  std::unique_ptr<sys::Journal> journal_;
  UniqueFd lock_;
  UniqueFd last_file_;
};

}  // namespace holdfast::netproxy
