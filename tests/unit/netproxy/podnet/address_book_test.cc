// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/address_book.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "holdfast/sys/files.h"
#include "netproxy/podnet/former_records.h"
#include "tests/support/full_disk.h"

namespace holdfast::netproxy {
namespace {

class AddressBookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-book-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  AddressBook Open(std::vector<std::string> cidrs) {
    std::vector<Cidr> ranges;
    for (const std::string& c : cidrs) ranges.push_back(Cidr::Parse(c).value());
    auto book = AddressBook::Open(path_);
    EXPECT_TRUE(book) << book.error().message();
    EXPECT_TRUE(book->SetRanges(ranges));
    return std::move(*book);
  }

  static PodRecord Pod(const std::string& uid) {
    PodRecord record;
    record.uid = PodUid(uid);
    record.pod_namespace = "default";
    record.pod_name = uid;
    return record;
  }

  static std::string Give(AddressBook& book, const std::string& uid) {
    auto done = book.Allocate(Pod(uid));
    if (!done) return done.error().message();
    std::string out;
    for (const IpAddress& a : book.Find(PodUid(uid))->addresses)
      out += (out.empty() ? "" : " ") + a.ToString();
    return out;
  }

  std::string path_;
};

TEST_F(AddressBookTest, NeverGivesNetworkGatewayAndBroadcast) {
  AddressBook book = Open({"10.0.0.0/29"});
  std::vector<std::string> given;
  for (char c = 'a'; c <= 'e'; ++c) given.push_back(Give(book, std::string(1, c)));
  EXPECT_EQ(given,
            (std::vector<std::string>{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}));
  EXPECT_EQ(Give(book, "f"), "no IP addresses available in range set: 10.0.0.0-10.0.0.7");
  EXPECT_EQ(book.Find(PodUid("f")), nullptr);
}

TEST_F(AddressBookTest, GoesOnAfterTheLastOneAcrossRestartsAndWraps) {
  {
    AddressBook book = Open({"10.0.0.0/29"});
    EXPECT_EQ(Give(book, "a"), "10.0.0.2");
    EXPECT_EQ(Give(book, "b"), "10.0.0.3");
    ASSERT_TRUE(book.Free(PodUid("a")));
    ASSERT_TRUE(book.Free(PodUid("b")));
  }
  AddressBook book = Open({"10.0.0.0/29"});
  EXPECT_EQ(Give(book, "c"), "10.0.0.4");
  EXPECT_EQ(Give(book, "d"), "10.0.0.5");
  EXPECT_EQ(Give(book, "e"), "10.0.0.6");
  EXPECT_EQ(Give(book, "f"), "10.0.0.2");
}

TEST_F(AddressBookTest, FullFamilyTakesNothingOfTheOther) {
  AddressBook book = Open({"10.0.0.0/30", "fd00::/64"});
  EXPECT_EQ(Give(book, "a"), "10.0.0.2 fd00::2");
  EXPECT_EQ(Give(book, "b"), "no IP addresses available in range set: 10.0.0.0-10.0.0.3");
  ASSERT_TRUE(book.Free(PodUid("a")));
  EXPECT_EQ(Give(book, "c"), "10.0.0.2 fd00::3");
}

TEST_F(AddressBookTest, ReleasedAddressesStayTakenUntilFreed) {
  {
    AddressBook book = Open({"10.0.0.0/30"});
    EXPECT_EQ(Give(book, "a"), "10.0.0.2");
    ASSERT_TRUE(book.Release(PodUid("a")));
    EXPECT_NE(Give(book, "b"), "10.0.0.2");
  }
  AddressBook book = Open({"10.0.0.0/30"});
  ASSERT_NE(book.Find(PodUid("a")), nullptr);
  EXPECT_TRUE(book.Find(PodUid("a"))->releasing);
  EXPECT_NE(Give(book, "b"), "10.0.0.2");
  ASSERT_TRUE(book.Free(PodUid("a")));
  EXPECT_EQ(Give(book, "b"), "10.0.0.2");
}

TEST_F(AddressBookTest, PodThatComesBackWhileReleasedKeepsItsAddress) {
  {
    AddressBook book = Open({"10.0.0.0/24"});
    Give(book, "a");
    ASSERT_TRUE(book.Release(PodUid("a")));
    PodRecord back = *book.Find(PodUid("a"));
    back.releasing = false;
    ASSERT_TRUE(book.Update(back));
  }
  AddressBook book = Open({"10.0.0.0/24"});
  EXPECT_FALSE(book.Find(PodUid("a"))->releasing);
  EXPECT_EQ(book.Find(PodUid("a"))->addresses.at(0).ToString(), "10.0.0.2");
}

TEST_F(AddressBookTest, PodsGoOnAFullDisk) {
  {
    AddressBook book = Open({"10.0.0.0/24"});
    Give(book, "released");
    Give(book, "freed");
    const test_support::FullDisk disk(std::filesystem::file_size(path_ + "/pods.journal"));
    EXPECT_NE(Give(book, "new"), "10.0.0.4");
    for (const char* uid : {"released", "freed"}) ASSERT_TRUE(book.Release(PodUid(uid))) << uid;
    ASSERT_TRUE(book.Free(PodUid("freed")));
  }
  const AddressBook book = Open({"10.0.0.0/24"});
  EXPECT_EQ(book.records().size(), 1u);
  EXPECT_TRUE(book.Find(PodUid("released"))->releasing);
}

TEST_F(AddressBookTest, OccupiedAddressesAreLeftOut) {
  AddressBook book = Open({"10.0.0.0/24"});
  book.SetOccupied({IpAddress::Parse("10.0.0.2").value(), IpAddress::Parse("10.0.0.3").value()});
  EXPECT_EQ(Give(book, "a"), "10.0.0.4");
}

// One record once stopped the agent's start, and with it every pod.
TEST_F(AddressBookTest, ARecordThatCannotBeReadIsToldOnceAndTheOthersAreThere) {
  {
    AddressBook book = Open({"10.0.0.0/24"});
    Give(book, "a");
  }
  {
    const auto opened = sys::Journal::Open(sys::OpenDir(path_).value(), "pods.journal",
                                           sys::Journal::Lasting::kProcess);
    ASSERT_TRUE(opened->journal->Put("c", ""));
  }
  std::ofstream(path_ + "/last") << "garbage\n\n\xff";
  {
    AddressBook book = Open({"10.0.0.0/24"});
    EXPECT_EQ(book.records().size(), 1u);
    EXPECT_EQ(book.problems(),
              std::vector<std::string>{"network record of pod c: unknown version, dropped"});
    EXPECT_EQ(Give(book, "d"), "10.0.0.3");
  }
  AddressBook book = Open({"10.0.0.0/24"});
  EXPECT_TRUE(book.problems().empty());
  EXPECT_EQ(book.records().size(), 2u);
}

// As releases before the journal left them.
class FormerRecordsTest : public AddressBookTest {
 protected:
  void SetUp() override {
    AddressBookTest::SetUp();
    PodRecord live = Pod("live");
    live.addresses = {IpAddress::Parse("10.0.0.2").value()};
    PodRecord released = Pod("released");
    released.addresses = {IpAddress::Parse("10.0.0.3").value()};
    released.releasing = true;
    records_ = {live, released};
    ASSERT_TRUE(WriteFormerRecords(sys::OpenDir(path_).value(), records_));
  }
  bool HasFiles() const { return std::filesystem::exists(path_ + "/pods/live"); }
  void ExpectBoth(const AddressBook& book) const {
    EXPECT_EQ(book.records().size(), 2u);
    for (const PodRecord& record : records_) {
      ASSERT_NE(book.Find(record.uid), nullptr);
      EXPECT_EQ(*book.Find(record.uid), record);
    }
  }

  std::vector<PodRecord> records_;
};

TEST_F(FormerRecordsTest, AreTakenOverOnce) {
  for (int start = 0; start < 2; ++start) {
    AddressBook book = Open({"10.0.0.0/24"});
    ExpectBoth(book);
    EXPECT_TRUE(book.problems().empty());
    EXPECT_FALSE(HasFiles());
    EXPECT_EQ(Give(book, "new"), "10.0.0.4");
    ASSERT_TRUE(book.Free(PodUid("new")));
    std::filesystem::remove(path_ + "/last");
  }
}

TEST_F(FormerRecordsTest, OfAPodThatCameBackWhileItWasReleasedTheLiveOneCounts) {
  std::filesystem::copy_file(path_ + "/pods/live", path_ + "/releasing/live");
  ExpectBoth(Open({"10.0.0.0/24"}));
}

TEST_F(FormerRecordsTest, DamageIsToldAndWhatAKilledWriterLeftIsNone) {
  std::ofstream(path_ + "/pods/.b.1.tmp") << "half";
  std::ofstream(path_ + "/pods/c") << "";
  std::filesystem::create_directory(path_ + "/pods/d");
  AddressBook book = Open({"10.0.0.0/24"});
  ExpectBoth(book);
  EXPECT_EQ(book.problems(),
            (std::vector<std::string>{"network record of pod c: unknown version, dropped",
                                      "d: read: is a directory, dropped"}));
  EXPECT_FALSE(HasFiles());
}

// Somebody put the former release back and it ran, for a while.
TEST_F(FormerRecordsTest, CountWhenTheyAreNewerThanTheJournal) {
  {
    AddressBook book = Open({"10.0.0.0/24"});
    ASSERT_TRUE(book.Free(PodUid("live")));
    EXPECT_EQ(Give(book, "before"), "10.0.0.2");
  }
  std::filesystem::last_write_time(
      path_ + "/pods.journal",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(WriteFormerRecords(sys::OpenDir(path_).value(), records_));
  AddressBook book = Open({"10.0.0.0/24"});
  ExpectBoth(book);
  EXPECT_EQ(book.problems(),
            std::vector<std::string>{"pods.journal: older than what was kept elsewhere; put aside "
                                     "as pods.journal.superseded"});
}

TEST_F(FormerRecordsTest, AreThereForTheFormerReleaseAndTakenBack) {
  ExpectBoth(Open({"10.0.0.0/24"}));
  ASSERT_FALSE(HasFiles());
  ASSERT_TRUE(Open({"10.0.0.0/24"}).LeaveAsFiles());
  EXPECT_TRUE(HasFiles());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/releasing/released"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/pods.journal"));
  ExpectBoth(Open({"10.0.0.0/24"}));
}

TEST_F(FormerRecordsTest, CountOnAFullDiskTooAndStayThere) {
  {
    const test_support::FullDisk disk(20);
    AddressBook book = Open({"10.0.0.0/24"});
    ExpectBoth(book);
    EXPECT_EQ(book.problems().size(), 1u);
    EXPECT_TRUE(HasFiles());
  }
  ExpectBoth(Open({"10.0.0.0/24"}));
  EXPECT_FALSE(HasFiles());
}

TEST_F(AddressBookTest, ChangedRangeStartsAnewAndKeepsWhatIsHeld) {
  {
    AddressBook book = Open({"10.0.0.0/24"});
    Give(book, "a");
  }
  AddressBook book = Open({"10.9.0.0/24"});
  EXPECT_EQ(book.Find(PodUid("a"))->addresses.at(0).ToString(), "10.0.0.2");
  EXPECT_EQ(Give(book, "b"), "10.9.0.2");
}

TEST(RecordTest, SurvivesWritingAndReading) {
  PodRecord record;
  record.uid = PodUid("u");
  record.pod_namespace = "kube-system";
  record.pod_name = "dns-1";
  record.addresses = {IpAddress::Parse("10.0.0.2").value(), IpAddress::Parse("fd00::2").value()};
  record.host_ports = {{"", 53, 5353, HostPort::Protocol::kUdp},
                       {"192.0.2.1", 80, 8080, HostPort::Protocol::kTcp},
                       {"2001:db8::1", 9, 10, HostPort::Protocol::kSctp}};
  EXPECT_EQ(ParseRecord(record.uid, FormatRecord(record)).value(), record);
}

TEST(RecordTest, EveryTruncationIsRefused) {
  PodRecord record;
  record.uid = PodUid("u");
  record.addresses = {IpAddress::Parse("10.0.0.2").value()};
  record.host_ports = {{"", 53, 5353, HostPort::Protocol::kUdp}};
  const std::string text = FormatRecord(record);
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_FALSE(ParseRecord(record.uid, text.substr(0, size))) << size;
  }
}

}  // namespace
}  // namespace holdfast::netproxy
