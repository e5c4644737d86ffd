// SPDX-License-Identifier: Apache-2.0
// Log lines, and the cursor over real files.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "agent/base/log_time.h"
#include "agent/log/log_cursor.h"
#include "agent/log/log_line.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

TEST(CriLineTest, Parses) {
  const auto line = ParseCriLine("2026-11-21T07:19:36.5Z stderr P:x hello  world");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->stream, LogStreamKind::kStderr);
  EXPECT_TRUE(line->partial);
  EXPECT_EQ(line->text, "hello  world");
  EXPECT_EQ(ParseCriLine("2026-11-21T07:19:36Z stdout F ")->text, "");
  for (const char* bad :
       {"", "x", "2026-11-21T07:19:36Z stdin F x", "2026-11-21T07:19:36Z stdout X y"}) {
    EXPECT_FALSE(ParseCriLine(bad).has_value()) << bad;
  }
}

TEST(LineJoinerTest, JoinsEachStreamByItself) {
  LineJoiner joiner;
  std::vector<ShownLine> out;
  joiner.Add({.time = {}, .stream = LogStreamKind::kStdout, .partial = true, .text = "a"}, out);
  joiner.Add({.time = {}, .stream = LogStreamKind::kStderr, .partial = false, .text = "e"}, out);
  joiner.Add({.time = {}, .stream = LogStreamKind::kStdout, .partial = false, .text = "b"}, out);
  joiner.Add({.time = {}, .stream = LogStreamKind::kStdout, .partial = true, .text = "rest"}, out);
  joiner.Flush(out);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].text, "e");
  EXPECT_EQ(out[1].text, "ab");
  EXPECT_EQ(out[2].text, "rest");
  EXPECT_TRUE(out[2].partial);
}

TEST(LineJoinerTest, HoldsNoMoreThanItsBound) {
  LineJoiner joiner;
  std::vector<ShownLine> out;
  const std::string part(16 * 1024, 'x');
  for (int i = 0; i < 100; ++i) {
    joiner.Add({.time = {}, .stream = LogStreamKind::kStdout, .partial = true, .text = part}, out);
  }
  EXPECT_EQ(out.size(), 25u);
  EXPECT_TRUE(out.front().partial);
}

class LogCursorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static std::string Entry(int number, const char* stream = "stdout", const char* tag = "F") {
    return StrCat(FormatLogTime(WallTime{std::chrono::seconds(1000 + number)}), " ", stream, " ",
                  tag, " line", number, "\n");
  }
  void Append(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name, std::ios::app) << text;
  }
  void Rename(const std::string& from, const std::string& to) {
    std::filesystem::rename(dir_ + "/" + from, dir_ + "/" + to);
  }
  static constexpr uint64_t kUnpackedBytes = 1 << 20;
  UnpackedLogs unpacked_{kUnpackedBytes};

  LogCursor Open(LogFilter filter = {}, uint32_t attempt = 0) {
    auto cursor = LogCursor::Open(*sys::OpenDir(dir_), attempt, filter, unpacked_);
    EXPECT_TRUE(cursor.has_value());
    return std::move(*cursor);
  }
  // All up to the end, "1 2 3".
  static std::string Rest(LogCursor& cursor) {
    std::vector<ShownLine> lines;
    while (true) {
      const auto at_end = cursor.Read(100, lines);
      if (!at_end || *at_end) break;
    }
    std::string text;
    for (const ShownLine& line : lines) {
      text += (text.empty() ? "" : " ") + line.text.substr(line.text.find("line") + 4);
    }
    return text;
  }
  void Compress(const std::string& name) {
    std::ifstream in(dir_ + "/" + name);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    gzFile out = ::gzopen((dir_ + "/" + name + ".tmp").c_str(), "wb");
    ::gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    ::gzclose(out);
    Rename(name + ".tmp", name + ".gz");
    std::filesystem::remove(dir_ + "/" + name);
  }

  std::string dir_;
};

TEST_F(LogCursorTest, ReadsRotatedAndCompressedFilesInOrder) {
  Append("0.log.20260101-000000", Entry(1) + Entry(2));
  Compress("0.log.20260101-000000");
  Append("0.log.20260101-000100", Entry(3));
  Append("0.log", Entry(4) + "no such line\n" + Entry(5));
  Append("1.log", Entry(9));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "1 2 3 4 5");
}

TEST_F(LogCursorTest, TailCountsAcrossFilesAndByStream) {
  std::string old;
  for (int i = 1; i <= 5000; ++i) old += Entry(i, i % 2 == 0 ? "stderr" : "stdout");
  Append("0.log.20260101-000000", old);
  Append("0.log", Entry(5001) + Entry(5002, "stderr"));
  const auto tail = [&](int64_t lines, std::optional<LogStreamKind> stream = std::nullopt) {
    LogFilter filter;
    filter.tail_lines = lines;
    filter.stream = stream;
    auto cursor = Open(filter);
    return Rest(cursor);
  };
  EXPECT_EQ(tail(0), "");
  EXPECT_EQ(tail(1), "5002");
  EXPECT_EQ(tail(4), "4999 5000 5001 5002");
  EXPECT_EQ(tail(3, LogStreamKind::kStderr), "4998 5000 5002");
}

TEST_F(LogCursorTest, TailOfMoreThanThereIsGivesAll) {
  Append("0.log", Entry(1) + Entry(2));
  LogFilter filter;
  filter.tail_lines = 10;
  auto cursor = Open(filter);
  EXPECT_EQ(Rest(cursor), "1 2");
}

TEST_F(LogCursorTest, SinceLeavesOutOlderLines) {
  Append("0.log", Entry(1) + Entry(2) + Entry(3));
  LogFilter filter;
  filter.since = WallTime{std::chrono::seconds(1002)};
  auto cursor = Open(filter);
  EXPECT_EQ(Rest(cursor), "2 3");
}

TEST_F(LogCursorTest, FollowsOverRotationWithoutLossOrRepeat) {
  Append("0.log", Entry(1));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "1");
  Append("0.log", Entry(2));
  Rename("0.log", "0.log.20260101-000000");
  Append("0.log", Entry(3));
  EXPECT_EQ(Rest(cursor), "2 3");
  // Twice between two reads.
  Append("0.log", Entry(4));
  Rename("0.log", "0.log.20260101-000001");
  Append("0.log", Entry(5));
  Rename("0.log", "0.log.20260101-000002");
  Append("0.log", Entry(6));
  EXPECT_EQ(Rest(cursor), "4 5 6");
}

TEST_F(LogCursorTest, FindsItsPlaceWhenItsFileWasCompressedMeanwhile) {
  Append("0.log", Entry(1) + Entry(2));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "1 2");
  Append("0.log", Entry(3));
  Rename("0.log", "0.log.20260101-000000");
  // The cursor holds the old file open; its name is gone.
  Compress("0.log.20260101-000000");
  Append("0.log", Entry(4));
  EXPECT_EQ(Rest(cursor), "3 4");
}

TEST_F(LogCursorTest, AFileCompressedBetweenListingAndOpeningIsRead) {
  Append("0.log.20260101-000000", Entry(1) + Entry(2));
  Append("0.log", Entry(3));
  const DirFd dir = *sys::OpenDir(dir_);
  const auto listed = ListSegments(dir.get(), 0);
  ASSERT_TRUE(listed.has_value());
  ASSERT_EQ(listed->size(), 2u);
  Compress("0.log.20260101-000000");
  const auto packed = OpenSegment(dir.get(), listed->front(), unpacked_);
  ASSERT_TRUE(packed.has_value()) << packed.error().message();
  char bytes[4096];
  const auto size = ::pread((*packed)->get(), bytes, sizeof bytes, 0);
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(size)), Entry(1) + Entry(2));
}

TEST_F(LogCursorTest, AFileRotatedBetweenListingAndOpeningIsNotTakenForAnother) {
  Append("0.log", Entry(1));
  const DirFd dir = *sys::OpenDir(dir_);
  const auto listed = ListSegments(dir.get(), 0);
  ASSERT_TRUE(listed.has_value());
  Rename("0.log", "0.log.20260101-000000");
  EXPECT_EQ(OpenSegment(dir.get(), listed->front(), unpacked_).error().code(), Code::kNotFound);
  Append("0.log", Entry(2));
  EXPECT_EQ(OpenSegment(dir.get(), listed->front(), unpacked_).error().code(), Code::kNotFound);
}

// A file system gives a removed file's inode number to the next one; then the number alone says
// nothing.
TEST_F(LogCursorTest, AFileThatIsGoneIsNotTakenForTheNextOne) {
  const DirFd dir = *sys::OpenDir(dir_);
  for (int i = 0; i < 20; ++i) {
    Append("0.log", Entry(i));
    const auto listed = ListSegments(dir.get(), 0);
    ASSERT_TRUE(listed.has_value());
    ASSERT_EQ(listed->size(), 1u);
    std::filesystem::remove(dir_ + "/0.log");
    Append("0.log", Entry(i + 1));
    EXPECT_EQ(OpenSegment(dir.get(), listed->front(), unpacked_).error().code(), Code::kNotFound);
    std::filesystem::remove(dir_ + "/0.log");
  }
}

// As a logger that was killed between making the .gz and removing its source leaves it.
TEST_F(LogCursorTest, AFileThatIsThereTwiceIsReadOnce) {
  const std::string text = Entry(1) + Entry(2);
  Append("0.log.20260101-000000", text);
  Compress("0.log.20260101-000000");
  Append("0.log.20260101-000000", text);
  Append("0.log", Entry(3));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "1 2 3");
}

// A writer that rotates and compresses as fast as it can; the reader starts anew or follows.
TEST_F(LogCursorTest, ReadersStandFastRotation) {
  constexpr int kFiles = 120;
  Append("0.log", Entry(0));
  auto follower = Open();
  std::atomic<int> written{0};
  std::thread writer([&] {
    for (int i = 1; i <= kFiles; ++i) {
      const std::string name = StrCat("0.log.20260101-", 100000 + i);
      Rename("0.log", name);
      Append("0.log", Entry(i));
      Compress(name);
      written = i;
    }
  });
  std::string followed;
  std::string last;
  const auto add = [](std::string& to, const std::string& more) {
    if (!more.empty()) to += (to.empty() ? "" : " ") + more;
  };
  while (written < kFiles) {
    add(followed, Rest(follower));
    auto fresh = Open();
    const int at_least = written;
    last = Rest(fresh);
    std::string wanted;
    for (int i = 0; i <= at_least; ++i) add(wanted, std::to_string(i));
    ASSERT_TRUE(last.starts_with(wanted)) << last;
  }
  writer.join();
  add(followed, Rest(follower));
  std::string all;
  for (int i = 0; i <= kFiles; ++i) add(all, std::to_string(i));
  EXPECT_EQ(followed, all);
}

// However fast the log is rotated, a listing ends before what it lacks.
TEST_F(LogCursorTest, AListingHasNoHoles) {
  constexpr int kFiles = 300;
  Append("0.log", Entry(1));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i <= kFiles; ++i) {
      const std::string name = StrCat("0.log.20260101-", 100000 + i);
      Rename("0.log", name);
      Append("0.log", Entry(i + 1));
      if (i % 2 == 0) Compress(name);
    }
    done = true;
  });
  const DirFd dir = *sys::OpenDir(dir_);
  while (!done && !HasFailure()) {
    const auto listed = ListSegments(dir.get(), 0);
    EXPECT_TRUE(listed);
    if (!listed) break;
    int number = 1;
    for (const LogSegment& segment : *listed) {
      if (!segment.live()) {
        EXPECT_EQ(segment.key, StrCat("20260101-", 100000 + number));
      } else if (const auto file = OpenSegment(dir.get(), segment, unpacked_)) {
        char bytes[256];
        const auto size = ::pread((*file)->get(), bytes, sizeof bytes, 0);
        const std::string_view text(bytes, static_cast<size_t>(std::max<ssize_t>(size, 0)));
        EXPECT_TRUE(text.empty() || text == Entry(number)) << number << ": " << text;
      }
      ++number;
    }
  }
  writer.join();
}

TEST_F(LogCursorTest, EntersTheNextRun) {
  Append("0.log", Entry(1));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "1");
  std::vector<ShownLine> lines;
  EXPECT_FALSE(*cursor.EnterNextAttempt(lines));
  Append("2.log", Entry(2));
  EXPECT_TRUE(*cursor.EnterNextAttempt(lines));
  EXPECT_EQ(cursor.attempt(), 2u);
  EXPECT_EQ(Rest(cursor), "2");
}

TEST_F(LogCursorTest, HalfALineWaitsForItsEnd) {
  const std::string entry = Entry(1);
  Append("0.log", entry.substr(0, 20));
  auto cursor = Open();
  EXPECT_EQ(Rest(cursor), "");
  Append("0.log", entry.substr(20));
  EXPECT_EQ(Rest(cursor), "1");
}

// Each reader once had a copy of its own, of up to 256 MiB, in the agent's memory.
TEST_F(LogCursorTest, ReadersOfAPackedFileShareACopyAndAllCopiesHaveABound) {
  Append("0.log.20260101-000000", Entry(1));
  Append("0.log.20260102-000000", std::string(kUnpackedBytes - 10, 'x'));
  Compress("0.log.20260101-000000");
  Compress("0.log.20260102-000000");
  Append("0.log", Entry(3));
  const DirFd dir = *sys::OpenDir(dir_);
  const auto listed = ListSegments(dir.get(), 0);
  ASSERT_EQ(listed->size(), 3u);
  {
    const auto one = OpenSegment(dir.get(), listed->at(0), unpacked_);
    const auto same = OpenSegment(dir.get(), listed->at(0), unpacked_);
    ASSERT_TRUE(one && same);
    EXPECT_EQ(one->get(), same->get());
    EXPECT_EQ(unpacked_.bytes(), Entry(1).size());
    const auto refused = OpenSegment(dir.get(), listed->at(1), unpacked_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
    EXPECT_EQ(unpacked_.bytes(), Entry(1).size()) << "what was refused takes nothing";
  }
  EXPECT_EQ(unpacked_.bytes(), 0u);
  EXPECT_TRUE(OpenSegment(dir.get(), listed->at(1), unpacked_)) << "now there is room";
}

TEST_F(LogCursorTest, NoFileIsNotFound) {
  const auto cursor = LogCursor::Open(*sys::OpenDir(dir_), 0, {}, unpacked_);
  ASSERT_FALSE(cursor.has_value());
  EXPECT_EQ(cursor.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace holdfast::agent
