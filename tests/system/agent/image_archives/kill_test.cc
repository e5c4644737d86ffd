// SPDX-License-Identifier: Apache-2.0
// An agent that is killed at each pause point while it imports an archive: the next one has the
// image, pinned, and nothing besides.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "agent/image_archives/image_archives.h"
#include "tests/support/killed_process.h"
#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/archive_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr char kTop[] = "HOLDFAST_TEST_TOP";

class CountedEvents : public EventSink {
 public:
  void AddEvent(const EventSubject&, const EventNote& note) override {
    reasons.push_back(note.reason);
  }
  std::vector<std::string> reasons;
};

// What an agent does with the archives of `top`.
struct ArchivesAgent {
  explicit ArchivesAgent(const std::string& top) : book(top + "/book.json") {
    runtime::ImageStoreOptions options;
    options.root = top + "/images";
    options.aside = top + "/aside";
    options.helper = runtime::UnpackHelper();
    options.limits.reserve = runtime::kNoReserve;
    options.pinned_by = [this](const Digest& id) { return book.PinnedBy(id); };
    store = std::move(*runtime::DiskImageStore::Open(std::move(options)));
    archives = std::make_unique<ImageArchives>(ImageArchivesParts{
        top + "/in", book, *store, "n1", events, [] { return false; }, [](const std::string&) {}});
  }
  ArchiveBook book;
  CountedEvents events;
  std::unique_ptr<runtime::DiskImageStore> store;
  std::unique_ptr<ImageArchives> archives;
};

// Started by LookKilledAt(), in a process that can be killed.
TEST(ArchivesDriver, DISABLED_Look) { ArchivesAgent(std::getenv(kTop)).archives->Look(); }

class ArchivesKillTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a layer holds files of every owner";
#ifndef HOLDFAST_PAUSE_POINTS
    GTEST_SKIP() << "built without pause points";
#endif
    char pattern[] = "/tmp/holdfast-archives-kill-XXXXXX";
    top_ = ::mkdtemp(pattern);
    fs::create_directory(top_ + "/in");
    fs::create_directory(top_ + "/pause");
    runtime::LayoutBuilder layout;
    const std::string image =
        layout.AddImage({test::BuildTar({test::Dir("etc"), test::File("etc/a", "a")})});
    std::ofstream(top_ + "/in/app.tar") << layout.Tar(layout.Index(
        runtime::DescriptorText(runtime::kOciManifestType, image, layout.Named("app:1"))));
  }
  void TearDown() override {
    if (!top_.empty()) fs::remove_all(top_);
  }
  // True when it stopped at the point and was killed there.
  bool LookKilledAt(const std::string& point) const {
    const pid_t driver = test_support::StartDriver(
        "ArchivesDriver.DISABLED_Look", {StrCat(kTop, "=", top_), "HOLDFAST_PAUSE_AT=" + point,
                                         StrCat("HOLDFAST_PAUSE_DIR=", top_, "/pause")});
    const bool stopped = test_support::WaitForStop(driver);
    if (stopped) test_support::Kill(driver);
    return stopped;
  }

  std::string top_;
};

TEST_F(ArchivesKillTest, TheNextAgentHasTheImage) {
  ASSERT_FALSE(LookKilledAt("?"));
  const auto points = test_support::Passages(top_ + "/pause");
  ASSERT_TRUE(points.contains("images.archive-imported"));
  ASSERT_TRUE(points.contains("images.archive-recorded"));
  for (const auto& [point, count] : points) {
    fs::remove_all(top_ + "/images");
    fs::remove(top_ + "/book.json");
    ASSERT_TRUE(LookKilledAt(point)) << point;
    ArchivesAgent agent(top_);
    const bool recorded = point == "images.archive-recorded";
    EXPECT_EQ(agent.book.PinnedBy(agent.store->Get("app:1") ? agent.store->Get("app:1")->id
                                                            : Digest("none")),
              recorded ? "archive app.tar" : "")
        << point;
    agent.archives->Look();
    const auto image = agent.store->Get("app:1");
    ASSERT_TRUE(image) << point;
    EXPECT_TRUE(image->pinned) << point;
    EXPECT_EQ(agent.store->List()->size(), 1u) << point;
    if (recorded) {
      EXPECT_TRUE(agent.events.reasons.empty()) << "it is not imported again";
    } else {
      EXPECT_THAT(agent.events.reasons, ElementsAre("ImageImported")) << point;
    }
    EXPECT_TRUE(fs::is_empty(top_ + "/images/ingest")) << point;
  }
}

}  // namespace
}  // namespace holdfast::agent
