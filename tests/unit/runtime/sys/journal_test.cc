// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/journal.h"

#include <gtest/gtest.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/sys/journal_form.h"
#include "tests/support/full_disk.h"

namespace holdfast::sys {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::string, std::less<>>;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-journal-XXXXXX";
    dir_ = ::mkdtemp(pattern);
    path_ = dir_ + "/journal";
  }
  void TearDown() override { fs::remove_all(dir_); }

  Journal::Opened Open(Journal::Lasting lasting = Journal::Lasting::kDisk) const {
    auto opened = Journal::Open(OpenDir(dir_).value(), "journal", lasting);
    EXPECT_TRUE(opened) << opened.error().message();
    return std::move(*opened);
  }
  Values Read() const { return Open().values; }

  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string dir_;
  std::string path_;
};

TEST_F(JournalTest, HoldsWhatWasPutLastAndNotWhatWasRemoved) {
  EXPECT_EQ(Read(), Values{});
  EXPECT_FALSE(fs::exists(path_)) << "there is nothing to keep";
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    ASSERT_TRUE(opened.journal->Put("b", std::string("\0\n", 2)));
    ASSERT_TRUE(opened.journal->Put("c", ""));
    ASSERT_TRUE(opened.journal->Put("a", "2"));
    ASSERT_TRUE(opened.journal->Remove("c"));
    ASSERT_TRUE(opened.journal->Remove("nobody's"));
    ASSERT_TRUE(opened.journal->Sync());
  }
  EXPECT_EQ(Read(), (Values{{"a", "2"}, {"b", std::string("\0\n", 2)}}));
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Remove("a")) << "its former value does not come back";
    ASSERT_TRUE(opened.journal->Put("c", "3")) << "nor does it stay removed";
  }
  EXPECT_EQ(Read(), (Values{{"b", std::string("\0\n", 2)}, {"c", "3"}}));
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// Wherever a writer was killed, what was there before is there, and one can go on.
TEST_F(JournalTest, WhoeverIsKilledWhileWritingCostsNobodyElsesValue) {
  std::vector<size_t> ends;  // of the entries
  {
    const auto opened = Open();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(opened.journal->Put(StrCat("key", i), StrCat("value", i)));
      ends.push_back(fs::file_size(path_));
    }
  }
  const std::string whole = Bytes();
  for (size_t size = 0; size <= whole.size(); ++size) {
    Write(whole.substr(0, size));
    Values wanted;
    for (size_t i = 0; i < ends.size() && ends[i] <= size; ++i) {
      wanted[StrCat("key", i)] = StrCat("value", i);
    }
    {
      const auto opened = Open();
      ASSERT_EQ(opened.values, wanted) << size;
      ASSERT_TRUE(opened.problems.empty()) << size << ": " << opened.problems[0];
      ASSERT_TRUE(opened.journal->Put("then", "x"));
    }
    wanted["then"] = "x";
    ASSERT_EQ(Read(), wanted) << size;
  }
}

TEST_F(JournalTest, DamageCostsTheValueInItAndIsTold) {
  {
    const auto opened = Open();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(opened.journal->Put(StrCat("key", i), StrCat("value", i)));
    }
  }
  const std::string whole = Bytes();
  const size_t entry = (whole.size() - kJournalHeader) / 5;
  for (size_t at = kJournalHeader; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x21);
    Write(damaged);
    Values wanted;
    const size_t lost = (at - kJournalHeader) / entry;
    for (size_t i = 0; i < 5; ++i) {
      if (i != lost) wanted[StrCat("key", i)] = StrCat("value", i);
    }
    const auto opened = Open();
    ASSERT_EQ(opened.values, wanted) << at;
    // At the end it may look as if there had been no time for more.
    ASSERT_LE(opened.problems.size(), 1u);
    if (lost < 4) {
      ASSERT_EQ(opened.problems.size(), 1u) << at;
      EXPECT_EQ(opened.problems[0], StrCat("journal: bytes ", kJournalHeader + lost * entry, " to ",
                                           kJournalHeader + (lost + 1) * entry, " cannot be read"));
    }
  }
}

// A value may hold whatever somebody wrote into a pod, an entry of another journal too.
TEST_F(JournalTest, WhatAValueHoldsIsNoEntryWhereDamageHidesTheTrueOnes) {
  const std::string forged = JournalEntryBytes("12345678", "key", "forged");
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("key", "true"));
    ASSERT_TRUE(opened.journal->Put("hostile", forged + forged));
    ASSERT_TRUE(opened.journal->Put("after", "there"));
  }
  std::string bytes = Bytes();
  bytes[kJournalHeader + kJournalEntryHeader + 7 + kJournalEntryHeader - 1] ^= 1;  // a checksum
  Write(bytes);
  const auto opened = Open();
  EXPECT_EQ(opened.values, (Values{{"key", "true"}, {"after", "there"}}));
  EXPECT_EQ(opened.problems.size(), 1u);
}

TEST_F(JournalTest, AnotherFileInItsPlaceIsPutAsideAndTold) {
  for (const std::string content : {"no journal", "HFJ1 of which the header is no header"}) {
    Write(content);
    const auto opened = Open();
    ASSERT_EQ(opened.problems.size(), 1u);
    EXPECT_NE(opened.problems[0].find("put aside as journal.corrupt"), std::string::npos);
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    EXPECT_EQ(Read(), (Values{{"a", "1"}}));
    EXPECT_TRUE(fs::exists(path_ + ".corrupt"));
  }
}

TEST_F(JournalTest, OneOfANewerReleaseIsLeftAsItIs) {
  Write("HFJ2 and whatever follows there");
  const auto opened = Journal::Open(OpenDir(dir_).value(), "journal", Journal::Lasting::kDisk);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kUnsupported);
  EXPECT_EQ(opened.error().message(), "journal: a journal of version 2, this release knows 1");
  EXPECT_EQ(Bytes(), "HFJ2 and whatever follows there");
}

TEST_F(JournalTest, AFlagIsThereUntilTheValueIsPutAgain) {
  ASSERT_TRUE(Open().journal->Put("a", "1"));
  ASSERT_TRUE(Open().journal->Flag("a"));
  ASSERT_TRUE(Open().journal->Flag("nobody's"));
  {
    const auto opened = Open();
    EXPECT_EQ(opened.values, (Values{{"a", "1"}}));
    EXPECT_TRUE(opened.flagged.contains("a"));
    ASSERT_TRUE(opened.journal->Put("a", "1"));
  }
  const auto opened = Open();
  EXPECT_EQ(opened.values, (Values{{"a", "1"}}));
  EXPECT_TRUE(opened.flagged.empty());
}

TEST_F(JournalTest, TheSameValueAgainIsNotWritten) {
  ASSERT_TRUE(Open().journal->Put("a", "1"));
  const size_t size = fs::file_size(path_);
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    EXPECT_EQ(fs::file_size(path_), size);
    ASSERT_TRUE(opened.journal->Remove("a"));
    ASSERT_TRUE(opened.journal->Put("a", "1")) << "it is not there any more";
    EXPECT_GT(fs::file_size(path_), size);
  }
  EXPECT_EQ(Read(), (Values{{"a", "1"}}));
}

TEST_F(JournalTest, DoesNotGrowWithWhatIsOfNoAccountAnyMore) {
  const std::string value(1000, 'x');
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("stays", "as it is"));
    ASSERT_TRUE(opened.journal->Flag("stays"));
    for (int i = 0; i < 5000; ++i) {
      ASSERT_TRUE(opened.journal->Put(StrCat("changes", i % 20), StrCat(i, value)));
      ASSERT_TRUE(opened.journal->Put("goes", value));
      ASSERT_TRUE(opened.journal->Remove("goes"));
    }
    ASSERT_TRUE(opened.journal->Sync());
  }
  EXPECT_LT(fs::file_size(path_), 350'000u) << "10 MB were written";
  const auto opened = Open();
  const Values& values = opened.values;
  EXPECT_EQ(opened.flagged, (std::set<std::string, std::less<>>{"stays"}));
  EXPECT_EQ(values.size(), 21u);
  EXPECT_EQ(values.at("stays"), "as it is");
  EXPECT_EQ(values.at("changes19"), StrCat(4999, value));
  EXPECT_EQ(values.at("changes0"), StrCat(4980, value));
}

TEST_F(JournalTest, AFullDiskRefusesValuesAndNoRemoval) {
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    ASSERT_TRUE(opened.journal->Put("b", "2"));
    {
      const test_support::FullDisk disk(fs::file_size(path_) + 10);
      const auto refused = opened.journal->Put("a", std::string(100, 'x'));
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().sys_errno(), EFBIG);
      EXPECT_TRUE(opened.journal->Remove("b"));
      EXPECT_TRUE(opened.journal->Flag("a"));
      EXPECT_EQ(Read(), (Values{{"a", "1"}})) << "as it was, without the half";
    }
    ASSERT_TRUE(opened.journal->Put("c", "3")) << "shorter than what was begun";
  }
  const auto opened = Open();
  EXPECT_EQ(opened.values, (Values{{"a", "1"}, {"c", "3"}}));
  EXPECT_TRUE(opened.problems.empty());
}

TEST_F(JournalTest, WhatCannotBeWrittenAnewGoesOnGrowing) {
  const std::string value(100'000, 'x');
  {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    // Where the new file would be.
    fs::create_directory(StrCat(dir_, "/.journal.", static_cast<int>(::gettid()), ".tmp"));
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(opened.journal->Put("b", StrCat(i, value)));
    EXPECT_GT(fs::file_size(path_), 600'000u);
    fs::remove_all(StrCat(dir_, "/.journal.", static_cast<int>(::gettid()), ".tmp"));
    for (int i = 6; i < 12; ++i) ASSERT_TRUE(opened.journal->Put("b", StrCat(i, value)));
    EXPECT_LT(fs::file_size(path_), 600'000u);
  }
  EXPECT_EQ(Read(), (Values{{"a", "1"}, {"b", StrCat(11, value)}}));
}

// The calling thread's fdatasync fails from now on, as a disk's does that loses what it was given.
bool LoseSyncs() {
  const auto rules = seccomp_init(SCMP_ACT_ALLOW);
  const bool loaded = seccomp_rule_add(rules, SCMP_ACT_ERRNO(EIO), SCMP_SYS(fdatasync), 0) == 0 &&
                      seccomp_load(rules) == 0;
  seccomp_release(rules);
  return loaded;
}

// The kernel says once that it could not write a page, and calls it written from then on.
TEST_F(JournalTest, WhatCouldNotBeSyncedIsWrittenAnew) {
  std::thread([this] {
    const auto opened = Open();
    ASSERT_TRUE(opened.journal->Put("a", "1"));
    ASSERT_TRUE(opened.journal->Sync());
    ASSERT_TRUE(opened.journal->Put("a", "2"));
    struct stat before{};
    ASSERT_EQ(::stat(path_.c_str(), &before), 0);
    ASSERT_TRUE(LoseSyncs());
    const auto failed = opened.journal->Sync();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().sys_errno(), EIO);
    ASSERT_TRUE(opened.journal->Sync()) << "which syncs another file, by fsync(2)";
    struct stat after{};
    ASSERT_EQ(::stat(path_.c_str(), &after), 0);
    EXPECT_NE(after.st_ino, before.st_ino);
    EXPECT_LT(after.st_size, before.st_size);
  }).join();
  EXPECT_EQ(Read(), (Values{{"a", "2"}}));
}

TEST_F(JournalTest, RefusesWhatIsTooLong) {
  const auto opened = Open();
  const auto refused = opened.journal->Put(std::string(70'000, 'k'), "x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_FALSE(opened.journal->Put("k", std::string(kJournalValueLimit + 1, 'v')));
  EXPECT_EQ(Read(), Values{});
}

TEST_F(JournalTest, ManyAtATime) {
  {
    const auto opened = Open();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&journal = *opened.journal, t] {
        for (int i = 0; i < 300; ++i) {
          EXPECT_TRUE(journal.Put(StrCat(t), StrCat(i, std::string(1000, 'x'))));
          if (i % 50 == 0) {
            EXPECT_TRUE(journal.Sync());
          }
          EXPECT_TRUE(journal.Put(StrCat("gone", t), "x"));
          EXPECT_TRUE(journal.Remove(StrCat("gone", t)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const Values values = Read();
  ASSERT_EQ(values.size(), 4u);
  for (const auto& [key, value] : values) EXPECT_TRUE(value.starts_with("299x")) << key;
}

}  // namespace
}  // namespace holdfast::sys
