// SPDX-License-Identifier: Apache-2.0
#include "agent/image_archives/image_archives.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "tests/support/eventually.h"
#include "tests/support/inotify_limit.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An archive's content is its image's id; one that begins with "bad" is refused, with "rejected" by
// a policy, with "later" for now.
class ArchiveStore : public ImageStore {
 public:
  Result<Image> Get(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    if (!images_.contains(id)) return NotFound(id);
    return images_.at(id);
  }
  Result<std::vector<Image>> List() override { return std::vector<Image>(); }
  Result<std::vector<Image>> Import(int fd, const ImportOptions&) override {
    ASSIGN_OR_RETURN(const std::string text, sys::ReadFd(fd, 1000));
    const std::lock_guard lock(mutex_);
    ++imports_;
    if (text.starts_with("bad")) return InvalidArgument("archive: not one that is known");
    if (text.starts_with("rejected")) return Error(Code::kPermissionDenied, "rejected by policy");
    if (text.starts_with("later")) return Unavailable("disk");
    if (text.starts_with("full")) return Error(Code::kResourceExhausted, ENOSPC, "no room");
    Image image;
    image.id = Digest(text);
    image.repo_tags = {text + ":1"};
    images_[text] = image;
    return std::vector{image};
  }
  Result<std::vector<Image>> ImportDirectory(int, const ImportOptions&) override {
    return Unsupported("");
  }
  Result<void> Export(const std::string&, int) override { return Unsupported(""); }
  Result<void> Tag(const std::string&, const std::string&) override { return Unsupported(""); }
  Result<void> Remove(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    images_.erase(id);
    return {};
  }
  int imports() {
    const std::lock_guard lock(mutex_);
    return imports_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Image> images_;
  int imports_ = 0;
};

class ArchiveEvents : public EventSink {
 public:
  void AddEvent(const EventSubject&, const EventNote& note) override {
    const std::lock_guard lock(mutex_);
    told_.push_back(note.reason + ": " + note.message);
  }
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

class ImageArchivesTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-archives-XXXXXX";
    path_ = ::mkdtemp(pattern);
    fs::create_directory(path_ + "/in");
    Begin();
  }
  void TearDown() override {
    archives_.reset();
    fs::remove_all(path_);
  }
  // As a new agent.
  void Begin() {
    archives_.reset();
    book_ = std::make_unique<ArchiveBook>(path_ + "/book.json");
    archives_ = std::make_unique<ImageArchives>(
        ImageArchivesParts{path_ + "/in", *book_, store_, "n1", events_,
                           [this] { return ++rooms_ == 1; }, [](const std::string&) {}});
  }
  // Each content has a size of its own, so that a change shows whatever the clock's grain.
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/in/" + name) << content;
  }

  std::string path_;
  ArchiveStore store_;
  ArchiveEvents events_;
  int rooms_ = 0;
  std::unique_ptr<ArchiveBook> book_;
  std::unique_ptr<ImageArchives> archives_;
};

TEST_F(ImageArchivesTest, WhatLiesThereIsImportedOnceAndStays) {
  Write("app.tar", "app");
  archives_->Look();
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "archive app.tar");
  EXPECT_EQ(book_->PinnedBy(Digest("other")), "");
  EXPECT_THAT(events_.Take(),
              ElementsAre("ImageImported: Imported image archive " + path_ + "/in/app.tar: app:1"));
  archives_->Look();
  Begin();
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "archive app.tar") << "before anything is looked at";
  archives_->Look();
  EXPECT_EQ(store_.imports(), 1);
  EXPECT_THAT(events_.Take(), IsEmpty());
  // The directory says what is wanted.
  EXPECT_TRUE(store_.Remove("app"));
  archives_->Look();
  EXPECT_EQ(store_.imports(), 2);
  Write("app.tar", "app2");
  archives_->Look();
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "");
  EXPECT_EQ(book_->PinnedBy(Digest("app2")), "archive app.tar");
  fs::remove(path_ + "/in/app.tar");
  archives_->Look();
  EXPECT_EQ(book_->PinnedBy(Digest("app2")), "");
  EXPECT_TRUE(store_.Get("app2")) << "from now on an image like any other";
}

TEST_F(ImageArchivesTest, AnErrorIsToldOnceUntilTheFileIsAnother) {
  Write("app.tar", "bad");
  archives_->Look();
  EXPECT_THAT(events_.Take(), ElementsAre("ImageImportFailed: Failed to import image archive " +
                                          path_ + "/in/app.tar: archive: not one that is known"));
  archives_->Look();
  EXPECT_EQ(store_.imports(), 1);
  EXPECT_THAT(events_.Take(), IsEmpty());
  Write("app.tar", "later");
  archives_->Look();
  EXPECT_THAT(events_.Take(), ElementsAre(HasSubstr(": disk")));
  archives_->Look();
  EXPECT_EQ(store_.imports(), 3) << "what may pass is tried again";
  EXPECT_THAT(events_.Take(), IsEmpty()) << "and not told again";
  Write("app.tar", "good file");
  archives_->Look();
  EXPECT_THAT(events_.Take(), ElementsAre(HasSubstr("ImageImported")));
}

TEST_F(ImageArchivesTest, WhatIsRejectedIsTriedOnceUntilItChanges) {
  Write("a.tar", "rejected");
  Write("b.tar", "bad");
  const auto look_at = [this] {
    for (int i = 0; i < 5; ++i) archives_->Look();
    return store_.imports();
  };
  EXPECT_EQ(look_at(), 2) << "each once";
  EXPECT_EQ(events_.Take().size(), 2u);
  Write("a.tar", "rejected too");
  EXPECT_EQ(look_at(), 3) << "the one that changed, once";
  EXPECT_THAT(events_.Take(), ElementsAre(HasSubstr("a.tar: rejected by policy"))) << "told once";
  // The same content at another time, as by touch(1).
  fs::last_write_time(path_ + "/in/b.tar",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(look_at(), 4);
  fs::remove(path_ + "/in/b.tar");
  EXPECT_EQ(look_at(), 4);
  Write("b.tar", "bad");
  EXPECT_EQ(look_at(), 5) << "it was gone meanwhile";
  Begin();
  EXPECT_EQ(look_at(), 7) << "the next agent may have another policy: each once more";
  Write("a.tar", "accepted");
  EXPECT_EQ(look_at(), 8);
  EXPECT_EQ(book_->PinnedBy(Digest("accepted")), "archive a.tar");
}

TEST_F(ImageArchivesTest, AFileThatGetsWorseKeepsWhatItBrought) {
  Write("app.tar", "app");
  archives_->Look();
  Write("app.tar", "later!");
  archives_->Look();
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "archive app.tar");
  archives_->Look();
  EXPECT_EQ(store_.imports(), 3) << "it is still tried";
  Begin();
  archives_->Look();
  EXPECT_EQ(store_.imports(), 4) << "also by the next agent";
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "archive app.tar");
}

TEST_F(ImageArchivesTest, WhatIsNotWholeIsLeftAlone) {
  for (const char* name : {".hidden", "app.tar.part", "app.tar.tmp"}) Write(name, "no");
  fs::create_directory(path_ + "/in/directory");
  fs::create_symlink("nowhere", path_ + "/in/dangling");
  const UniqueFd writer(
      ::open((path_ + "/in/growing.tar").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(writer.get(), "grow", 4), 4);
  archives_->Look();
  EXPECT_EQ(store_.imports(), 0) << "somebody is writing it";
  EXPECT_THAT(events_.Take(), IsEmpty());
  ASSERT_EQ(::mkfifo((path_ + "/in/fifo").c_str(), 0600), 0);
  archives_->Look();
  EXPECT_THAT(events_.Take(), ElementsAre(HasSubstr("fifo: no regular file")));
}

TEST_F(ImageArchivesTest, RoomIsMadeWhenThereIsNone) {
  Write("app.tar", "full");
  archives_->Look();
  EXPECT_EQ(store_.imports(), 2);
  EXPECT_EQ(rooms_, 1);
  archives_->Look();
  EXPECT_EQ(store_.imports(), 3) << "the second time no room could be made";
}

TEST_F(ImageArchivesTest, RecordsThatCannotBeReadAreAsNone) {
  Write("app.tar", "app");
  archives_->Look();
  for (const char* text : {"", "{", "[]", R"({"version":2,"archives":{}})",
                           R"({"version":1,"archives":{"app.tar":{"inode":"x"}}})"}) {
    std::ofstream(path_ + "/book.json") << text;
    Begin();
    EXPECT_EQ(book_->PinnedBy(Digest("app")), "") << text;
  }
  archives_->Look();
  EXPECT_EQ(book_->PinnedBy(Digest("app")), "archive app.tar");
}

TEST_F(ImageArchivesTest, AFileThatAppearsIsSeen) {
  ASSERT_TRUE(archives_->Start(std::chrono::hours(1)));
  ASSERT_TRUE(test_support::Eventually([&] {
    // Renamed into place, as a program does that writes a file whole.
    std::ofstream(path_ + "/app") << "renamed";
    fs::rename(path_ + "/app", path_ + "/in/app.tar");
    return book_->PinnedBy(Digest("renamed")) != "";
  }));
  UniqueFd writer(::open((path_ + "/in/other.tar").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(writer.get(), "closed", 6), 6);
  EXPECT_EQ(book_->PinnedBy(Digest("closed")), "");
  writer.Reset();
  EXPECT_TRUE(test_support::Eventually([&] { return book_->PinnedBy(Digest("closed")) != ""; }));
}

TEST_F(ImageArchivesTest, WithoutInotifyAFileIsSeenAllTheSame) {
  test_support::WithoutInotify([this] {
    ASSERT_TRUE(archives_->Start(std::chrono::hours(1)));
    for (const char* content :
         {"one", "second", "the third"}) {  // the first look may see the first
      Write(StrCat(content, ".tar"), content);
      EXPECT_TRUE(test_support::Eventually([&] { return book_->PinnedBy(Digest(content)) != ""; }));
    }
    archives_.reset();
  });
}

TEST_F(ImageArchivesTest, ADirectoryThatIsNotThereIsToldOnce) {
  fs::remove_all(path_ + "/in");
  archives_->Look();
  EXPECT_THAT(events_.Take(), ElementsAre(HasSubstr("ImageImportFailed: imageDir ")));
  archives_->Look();
  EXPECT_THAT(events_.Take(), IsEmpty());
  ASSERT_TRUE(archives_->Start());
  EXPECT_TRUE(fs::is_directory(path_ + "/in")) << "an agent makes it";
}

}  // namespace
}  // namespace holdfast::agent
