// SPDX-License-Identifier: Apache-2.0
// The logger's record of one container, without any process: names, journal, commit, recovery.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "holdfast/sys/files.h"
#include "runtime/keeper/log/container_log.h"
#include "tests/support/full_disk.h"

namespace holdfast::runtime::keeper {
namespace {

namespace fs = std::filesystem;

class FixedClock : public Clock {
 public:
  BootTime Boot() const override { return boot; }
  WallTime Wall() const override { return {std::chrono::nanoseconds(1'700'000'000'000'000'000)}; }
  BootTime boot;
};

class LogRecordTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    fs::create_directory(directory_ + "/records");
    auto dir = sys::OpenAt(AT_FDCWD, directory_ + "/records", O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(dir);
    records_ = std::move(*dir);
    what_.id = "c1";
    what_.spec.path = directory_ + "/pods/pod/main/0.log";
    ASSERT_EQ(::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK), 0);
  }
  void TearDown() override {
    ::close(pipe_[0]);
    if (pipe_[1] >= 0) ::close(pipe_[1]);
    fs::remove_all(directory_);
  }
  std::unique_ptr<ContainerLog> Open() {
    auto log = ContainerLog::Open(records_.get(), what_, clock_);
    EXPECT_TRUE(log) << log.error().message();
    return log ? std::move(*log) : nullptr;
  }
  void Write(std::string_view text) {
    ASSERT_EQ(::write(pipe_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseWriter() { ::close(std::exchange(pipe_[1], -1)); }
  std::string Text() const {
    std::ifstream in(what_.spec.path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  static std::string Line(const char* tag, const std::string& text) {
    return std::string("2023-11-14T22:13:20.000000000Z stdout ") + tag + " " + text + "\n";
  }
  static std::string Marker(size_t bytes) {
    return "2023-11-14T22:13:20.000000000Z stderr F holdfast: " + std::to_string(bytes) +
           " bytes of output were lost here: the log could not be written\n";
  }

  std::string directory_;
  UniqueFd records_;
  LogRegistration what_;
  FixedClock clock_;
  int pipe_[2] = {-1, -1};
};

TEST_F(LogRecordTest, CommitsWholeLinesAndTheRestAtTheEnd) {
  auto log = Open();
  Write("one\ntw");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  EXPECT_EQ(Text(), Line("F", "one"));
  Write("o\nend");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  CloseWriter();
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kEnded);
  EXPECT_EQ(Text(), Line("F", "one") + Line("F", "two") + Line("P", "end"));
  EXPECT_FALSE(log->drained());
  EXPECT_EQ(log->End(LogStream::kStderr), ContainerLog::Progress::kEnded);
  EXPECT_TRUE(log->drained());
  EXPECT_EQ(log->status().bytes_in, 11u);
}

TEST_F(LogRecordTest, ASuccessorGoesOnWithTheUnfinishedLine) {
  {
    auto log = Open();
    Write("begin");
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  }
  auto log = Open();
  log->Idle();
  Write(" and end\n");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  EXPECT_EQ(Text(), Line("F", "begin and end"));
}

// Intent published, nothing, part or all of it written: the successor makes it whole, once.
TEST_F(LogRecordTest, ASuccessorWritesTheSameBytesAtTheSamePlace) {
  for (const size_t written : {0u, 10u, 90u}) {
    std::string expected;
    {
      auto log = Open();
      Write("first\nsecond\n");
      EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
      expected = Text();
    }
    // As if killed: the journal's last state again with its intent, the file cut off.
    auto journal = LogJournal::Open(records_.get(), "c1/journal");
    ASSERT_TRUE(journal);
    LogState state = journal->state();
    const uint64_t end = state.done[0];
    const size_t batch = Line("F", "first").size() + Line("F", "second").size();
    const uint64_t offset = expected.size() - batch;
    state.intent = {true, LogStream::kStdout,        false, end - 13,
                    end,  1'700'000'000'000'000'000, offset};
    state.done[0] = end - 13;
    journal->Publish(state);
    ASSERT_EQ(::truncate(what_.spec.path.c_str(), static_cast<off_t>(offset + written)), 0);
    auto log = Open();
    EXPECT_EQ(Text(), expected);
  }
}

TEST_F(LogRecordTest, ManyBatchesThroughTheRewoundSpoolStayInOrder) {
  auto log = Open();
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = std::to_string(i) + std::string(static_cast<size_t>(i % 400), 'x');
    Write(text + "\nhal");
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
    if (i % 100 == 0) log->Idle();
    if (i % 250 == 0) log = Open();
    Write("f\n");
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
    expected += Line("F", text) + Line("F", "half");
  }
  EXPECT_EQ(Text(), expected);
  log->Idle();
  EXPECT_EQ(fs::file_size(directory_ + "/records/c1/1.spool"), 0u);
}

TEST_F(LogRecordTest, RotatesBeforeTheFileGetsTooLongAndKeepsMaxFiles) {
  what_.spec.max_size_bytes = 20000;
  what_.spec.max_files = 3;
  auto log = Open();
  for (int i = 0; i < 1000; ++i) {
    Write(std::string(99, 'y') + "\n");
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  }
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(directory_ + "/pods/pod/main")) {
    EXPECT_LE(entry.file_size(), 20000u);
    ++files;
  }
  EXPECT_EQ(files, 3u);
  EXPECT_GT(log->status().rotations, 5u);
}

TEST_F(LogRecordTest, AFileThatCannotBeWrittenBlocksThenDropsThenSaysSo) {
  fs::create_directories(what_.spec.path + "/in-the-way");
  auto log = Open();
  Write("lost\n");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kBlocked);
  EXPECT_FALSE(log->Retry());
  EXPECT_EQ(log->status().bytes_dropped, 0u);
  clock_.boot = clock_.boot + kPatience;
  EXPECT_TRUE(log->Retry()) << "the container does not wait for ever";
  EXPECT_EQ(log->status().bytes_dropped, 5u);
  fs::remove_all(what_.spec.path);
  Write("kept\n");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  const std::string text = Text();
  EXPECT_NE(text.find("stderr F holdfast: 5 bytes of output were lost here"), std::string::npos);
  EXPECT_TRUE(text.ends_with(Line("F", "kept")));
}

TEST_F(LogRecordTest, ALineThatNamesALossIsNeverLeftTorn) {
  auto log = Open();
  const std::string text(6000, 'x');  // longer than the journal, which the limit is not about
  const std::string first = "lost in the disk's last bytes, which are too few for it\n";
  const std::string second = "lost as well\n";
  Write(text + "\n");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  {
    const test_support::FullDisk full(Text().size() + 60);  // the line needs more
    Write(first);
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kBlocked);
    clock_.boot = clock_.boot + kPatience;
    EXPECT_TRUE(log->Retry());
    Write(second);
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
    EXPECT_EQ(Text(), Line("F", text));
  }
  Write("kept\n");
  EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
  EXPECT_EQ(log->status().bytes_dropped, first.size() + second.size());
  EXPECT_EQ(Text(), Line("F", text) + Marker(first.size() + second.size()) + Line("F", "kept"));
}

TEST_F(LogRecordTest, ASuccessorTellsALossOnce) {
  for (const size_t written : {0u, 10u, 200u}) {
    {
      auto log = Open();
      Write("line\n");
      EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
    }
    // As if killed while the line was written.
    const std::string before = Text();
    auto journal = LogJournal::Open(records_.get(), "c1/journal");
    ASSERT_TRUE(journal);
    LogState state = journal->state();
    state.unreported_drops = 7;
    state.intent = {true, LogStream::kStderr, true, 0, 0, 1'700'000'000'000'000'000, before.size()};
    journal->Publish(state);
    std::ofstream(what_.spec.path, std::ios::app) << Marker(7).substr(0, written);
    auto log = Open();
    EXPECT_EQ(Text(), before + Marker(7));
    Write("next\n");
    EXPECT_EQ(log->Pump(LogStream::kStdout, pipe_[0]), ContainerLog::Progress::kOk);
    EXPECT_EQ(Text(), before + Marker(7) + Line("F", "next"));
  }
}

TEST(LogNamesTest, FindsWhatBelongsToALogOldestFirst) {
  const auto found = FindRotated({"0.log", "0.log.20240102-030405.gz", "0.log.20240102-030405.tmp",
                                  "0.log.20240102-030406", "0.log.20240102-030405.000001.gz",
                                  "0.log.old", "1.log.20240102-030405", "0.log.20240102-030406.gz"},
                                 "0.log");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].stem, "0.log.20240102-030405");
  EXPECT_EQ(found[1].stem, "0.log.20240102-030405.000001");
  EXPECT_EQ(found[2].stem, "0.log.20240102-030406");
  EXPECT_TRUE(found[2].plain && found[2].compressed);
}

TEST(LogNamesTest, ANewNameSortsAfterAllOthersEvenWhenTheClockGoesBack) {
  const WallTime now{std::chrono::seconds(1'700'000'000)};
  EXPECT_EQ(NextRotatedName({}, "0.log", now), "0.log.20231114-221320");
  EXPECT_EQ(NextRotatedName({{"0.log.20231114-221320", false, true}}, "0.log", now),
            "0.log.20231114-221320.000001");
  EXPECT_EQ(NextRotatedName({{"0.log.20231114-221320.000009", true, false}}, "0.log", now),
            "0.log.20231114-221320.000010");
  EXPECT_EQ(NextRotatedName({{"0.log.20991231-000000", true, false}}, "0.log", now),
            "0.log.20991231-000000.000001");
}

}  // namespace
}  // namespace holdfast::runtime::keeper
