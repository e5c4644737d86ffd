// SPDX-License-Identifier: Apache-2.0
#include "agent/source/source_faults.h"

#include "agent/source/manifest_directory.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "tests/unit/agent/source/source_fixture.h"

namespace holdfast::agent {
namespace {

std::string ServiceYaml(const std::string& name) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name +
         "}\nspec: {ports: [{port: 80}]}\n";
}

std::string ServiceJson(const std::string& name) {
  return R"({"apiVersion": "v1", "kind": "Service", "metadata": {"name": ")" + name +
         R"("}, "spec": {"ports": [{"port": 80}]}})";
}

WallTime At(int seconds) { return {std::chrono::seconds(1'700'000'000 + seconds)}; }

// Real files through a real source; what is told of them.
class SourceFaultsTest : public SourceTest {
 protected:
  void Start() {
    ManifestDirectoryOptions options;
    options.path = dir_;
    options.node_name = "n";
    auto source = ManifestDirectory::Start(options, std::make_shared<SystemClock>());
    ASSERT_TRUE(source) << source.error().message();
    source_ = std::move(*source);
  }
  void TearDown() override {
    source_.reset();
    SourceTest::TearDown();
  }

  // What is told of the directory as it is now.
  void Look(int second) {
    source_->Reread();
    warnings_.clear(), infos_.clear(), events_.clear();
    faults_.Look(*source_->Snapshot(), At(second));
  }
  std::vector<std::string> Services() const {
    std::vector<std::string> names;
    const auto snapshot = source_->Snapshot();
    for (const auto& service : snapshot->services) {
      names.push_back(service.object->metadata().name());
    }
    return names;
  }

  std::unique_ptr<ManifestDirectory> source_;
  std::vector<std::string> warnings_, infos_;
  std::vector<FaultEvent> events_;
  SourceFaults faults_{"n",
                       At(0),
                       {[this](const std::string& line) { warnings_.push_back(line); },
                        [this](const std::string& line) { infos_.push_back(line); },
                        [this](const FaultEvent& event) { events_.push_back(event); }}};
};

TEST_F(SourceFaultsTest, JsonWithLinesOfYamlIsToldWithItsPlaceAndTheWayOut) {
  Place("services.yaml", ServiceJson("a") + "\n---\n" + ServiceJson("b") + "\n");
  Start();
  Look(1);
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "services.yaml:2:1: text that begins with { is JSON and has no lines "
                           "---: begin it with one to make it YAML, or leave them out; nothing of "
                           "the file is in force until it is corrected"});
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(events_[0].kind, "Node");
  EXPECT_EQ(events_[0].name, "n");
  EXPECT_EQ(events_[0].message, warnings_[0]);
  for (const std::string head : {"---\n", ""}) {  // both ways out are ways out
    const std::string between = head.empty() ? "\n" : "\n---\n";
    Place("services.yaml", head + ServiceJson("a") + between + ServiceJson("b") + "\n");
    source_->Reread();
    EXPECT_EQ(Services(), (std::vector<std::string>{"a", "b"}));
  }
}

TEST_F(SourceFaultsTest, TheLastGoodServicesStayAndHearOfIt) {
  Place("web.yaml", ServiceYaml("web"));
  Place("other.yaml", ServiceYaml("other"));
  Start();
  Look(1);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(faults_.Condition(At(2)).status(), "False");
  Place("web.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web\n");
  Look(3);
  EXPECT_EQ(Services(), (std::vector<std::string>{"other", "web"}));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(warnings_[0].starts_with("web.yaml:4:1: ")) << warnings_[0];
  EXPECT_TRUE(warnings_[0].ends_with(
      "; the last good version of the file stays in force until it is corrected"))
      << warnings_[0];
  ASSERT_EQ(events_.size(), 2u) << "the node, and the Service out of this file";
  EXPECT_EQ(events_[1].kind, "Service");
  EXPECT_EQ(events_[1].object_namespace, "default");
  EXPECT_EQ(events_[1].name, "web");
  EXPECT_EQ(events_[1].message, warnings_[0]);
}

TEST_F(SourceFaultsTest, EachVersionOfAFileIsToldOnce) {
  const std::string bad = "apiVersion: v1\nkind: Servic\n";
  Place("a.yaml", bad);
  Start();
  Look(1);
  EXPECT_EQ(warnings_.size(), 1u);
  Place("b.yaml", ServiceYaml("b"));
  Look(2);
  EXPECT_TRUE(warnings_.empty()) << "another file changed";
  Place("a.yaml", bad);
  Look(3);
  EXPECT_TRUE(warnings_.empty()) << "the same text";
  Place("a.yaml", bad + "# tried something\n");
  Look(4);
  EXPECT_EQ(warnings_.size(), 1u) << "another text with the same fault";
  EXPECT_EQ(events_.size(), 1u);
  Place("a.yaml", ServiceYaml("a"));
  Look(5);
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(infos_, std::vector<std::string>{"a.yaml: in order again, or gone"});
  Place("a.yaml", bad);
  Look(6);
  EXPECT_EQ(warnings_.size(), 1u) << "wrong once more";
}

TEST_F(SourceFaultsTest, TheConditionLastsAsLongAsTheFault) {
  Start();
  Look(1);
  EXPECT_EQ(faults_.Condition(At(2)).lasttransitiontime().seconds(),
            At(0).since_epoch.count() / 1'000'000'000);
  for (int i = 0; i < 7; ++i) {
    Place("f" + std::to_string(i) + ".yaml", "apiVersion: v1\nkind: Servic\nx: 1\n");
  }
  Look(10);
  auto condition = faults_.Condition(At(4'000));
  EXPECT_EQ(condition.type(), "ManifestProblem");
  EXPECT_EQ(condition.status(), "True");
  EXPECT_EQ(condition.reason(), "InvalidManifest");
  EXPECT_TRUE(condition.message().starts_with("f0.yaml:2:7: kind: no such kind: \"Servic\""))
      << condition.message();
  EXPECT_TRUE(condition.message().ends_with(". 2 more are in the log")) << condition.message();
  EXPECT_EQ(condition.lasttransitiontime().seconds(), 1'700'000'010);
  EXPECT_EQ(condition.lastheartbeattime().seconds(), 1'700'004'000);
  for (int i = 0; i < 7; ++i) std::filesystem::remove(dir_ + "/f" + std::to_string(i) + ".yaml");
  ASSERT_TRUE(Eventually([&] { return source_->Snapshot()->errors.empty(); }));
  Look(5'000);
  condition = faults_.Condition(At(5'001));
  EXPECT_EQ(condition.status(), "False");
  EXPECT_EQ(condition.lasttransitiontime().seconds(), 1'700'005'000);
}

TEST_F(SourceFaultsTest, AFileOfFaultsDoesNotFloodTheLog) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "---\nkind: Service\n";
  Place("many.yaml", text);
  Start();
  Look(1);
  EXPECT_EQ(warnings_.size(), 20u);
  EXPECT_NE(warnings_.back().find(" (and 80 more); "), std::string::npos) << warnings_.back();
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_NE(events_[0].message.find(" (and 99 more); "), std::string::npos) << events_[0].message;
}

TEST_F(SourceFaultsTest, AnEmptyFileAndAGiantAreToldToo) {
  Place("empty.yaml", "# nothing\n");
  Place("giant.yaml", "");
  std::filesystem::resize_file(dir_ + "/giant.yaml", 11u << 20);
  Start();
  Look(1);
  EXPECT_EQ(warnings_,
            (std::vector<std::string>{"empty.yaml:1:1: holds no object; nothing of the file is in "
                                      "force until it is corrected",
                                      "giant.yaml: larger than the limit of 10 MiB; nothing of "
                                      "the file is in force until it is corrected"}));
}

TEST_F(SourceFaultsTest, AnOlderSnapshotChangesNothing) {
  Place("a.yaml", "kind: x\n");
  Start();
  const auto old = source_->Snapshot();
  Place("a.yaml", ServiceYaml("a"));
  Look(1);
  faults_.Look(*old, At(2));
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(faults_.Condition(At(3)).status(), "False");
}

}  // namespace
}  // namespace holdfast::agent
