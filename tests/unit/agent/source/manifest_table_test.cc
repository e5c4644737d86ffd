// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_table.h"

#include <gtest/gtest.h>

#include "agent/kube/pod_identity.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

// A file's version is one number here.
FileSignature Version(int64_t number, int64_t changed_ms = 0) {
  return {1, 1, number, number, changed_ms * 1'000'000};
}

FileObjects Pods(const std::vector<std::string>& names, const std::string& uid = "u") {
  FileObjects pods;
  for (const std::string& name : names) {
    auto pod = std::make_shared<corev1::Pod>();
    pod->mutable_metadata()->set_name(name);
    pod->mutable_metadata()->set_namespace_("default");
    pod->mutable_metadata()->set_uid(uid + name);
    pods.pods.push_back(std::move(pod));
  }
  return pods;
}

FileObjects Bad(const std::string& why) {
  FileObjects objects;
  objects.valid = false;
  objects.message = why;
  return objects;
}

class ManifestTableTest : public ::testing::Test {
 protected:
  // Both clocks; wall time starts far from zero.
  ManifestTable::Moment At(int64_t ms) const {
    return {{milliseconds(ms)}, {milliseconds(1'000'000 + ms)}};
  }
  static FileSignature Fresh(int64_t number, int64_t ms) { return Version(number, 1'000'000 + ms); }

  std::vector<std::string> PodNames() {
    std::vector<std::string> names;
    for (const DesiredPod& pod : table_.Build().pods) names.push_back(pod.pod->metadata().name());
    return names;
  }

  ManifestTable table_{milliseconds(200)};
};

TEST_F(ManifestTableTest, AnOldFileIsReadAtOnceAndOnlyOnce) {
  const auto plan = table_.Observe({{"a.yaml", Version(1)}}, At(0));
  EXPECT_EQ(plan.read, (ManifestTable::Listing{{"a.yaml", Version(1)}}));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  EXPECT_TRUE(table_.Observe({{"a.yaml", Version(1)}}, At(1)).read.empty());
  EXPECT_EQ(PodNames(), std::vector<std::string>{"a"});
}

TEST_F(ManifestTableTest, AFreshFileWaitsUntilItIsQuiet) {
  auto plan = table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(10));
  EXPECT_TRUE(plan.read.empty());
  ASSERT_TRUE(plan.look_again);
  EXPECT_EQ(plan.look_again->since_boot, milliseconds(210));
  plan = table_.Observe({{"a.yaml", Fresh(2, 150)}}, At(160));
  EXPECT_TRUE(plan.read.empty()) << "it grew";
  plan = table_.Observe({{"a.yaml", Fresh(2, 150)}}, At(340));
  EXPECT_TRUE(plan.read.empty());
  plan = table_.Observe({{"a.yaml", Fresh(2, 150)}}, At(360));
  EXPECT_EQ(plan.read.size(), 1u);
}

TEST_F(ManifestTableTest, ARenamedFileIsReadAtOnce) {
  table_.NoteRenamedIn("a.yaml");
  EXPECT_EQ(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(1)).read.size(), 1u);
  table_.Loaded("a.yaml", Fresh(1, 0), Pods({"a"}), At(1));
  EXPECT_TRUE(table_.Observe({{"a.yaml", Fresh(2, 5)}}, At(6)).read.empty())
      << "the next change of the same file is no rename any more";
}

// A writer that renames first and closes afterwards: nothing was written under the new name.
TEST_F(ManifestTableTest, ACloseWithoutAWriteIsNoNews) {
  table_.NoteRenamedIn("a.yaml");
  table_.NoteClosed("a.yaml");
  EXPECT_EQ(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(1)).read.size(), 1u);
}

TEST_F(ManifestTableTest, WhatWeEditedOurselvesIsNotWaitedFor) {
  table_.NoteEdited("a.yaml");
  EXPECT_EQ(table_.ObserveSome({{"a.yaml", Fresh(1, 0)}}, At(1)).read.size(), 1u);
  table_.Loaded("a.yaml", Fresh(1, 0), Pods({"a"}), At(1));
  EXPECT_TRUE(table_.ObserveSome({{"a.yaml", Fresh(2, 5)}}, At(6)).read.empty())
      << "the next change is somebody else's";
  table_.NoteEdited("a.yaml");
  const auto plan = table_.ObserveSome({{"a.yaml", std::nullopt}}, At(7));
  EXPECT_FALSE(plan.look_again);
  EXPECT_TRUE(PodNames().empty());
}

TEST_F(ManifestTableTest, AFileThatSomebodyWritesWaitsForTheClose) {
  table_.NoteWriting("a.yaml", true, At(0).boot);
  EXPECT_TRUE(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(5'000)).read.empty())
      << "paused halfway";
  table_.NoteClosed("a.yaml");
  EXPECT_EQ(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(6'000)).read.size(), 1u);
}

TEST_F(ManifestTableTest, AWriterThatNeverClosesDoesNotHoldItBackForEver) {
  table_.NoteWriting("a.yaml", true, At(0).boot);
  EXPECT_TRUE(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(19'000)).read.empty());
  EXPECT_EQ(table_.Observe({{"a.yaml", Fresh(1, 0)}}, At(20'000)).read.size(), 1u);
}

TEST_F(ManifestTableTest, AChangeTimeInTheFutureProvesNothing) {
  auto plan = table_.Observe({{"a.yaml", Fresh(1, 1'000'000)}}, At(0));
  EXPECT_TRUE(plan.read.empty());
  EXPECT_EQ(table_.Observe({{"a.yaml", Fresh(1, 1'000'000)}}, At(200)).read.size(), 1u)
      << "but having stood still does";
}

TEST_F(ManifestTableTest, ABadVersionKeepsTheLastGoodPodsAndSaysWhy) {
  table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  table_.Observe({{"a.yaml", Version(2)}}, At(1'000));
  table_.Loaded("a.yaml", Version(2), Bad("a.yaml:1:1: broken"), At(1'000));
  const PodSnapshot snapshot = table_.Build();
  EXPECT_EQ(PodNames(), std::vector<std::string>{"a"});
  ASSERT_EQ(snapshot.errors.size(), 1u);
  EXPECT_EQ(snapshot.errors[0].origin, "a.yaml");
  EXPECT_EQ(snapshot.errors[0].pod, "default/a");
  EXPECT_TRUE(snapshot.errors[0].last_good_runs);
  EXPECT_EQ(snapshot.errors[0].since, At(1'000).wall);
  // The same fault again keeps its time; repair clears it.
  table_.Loaded("a.yaml", Version(3), Bad("a.yaml:1:1: broken"), At(2'000));
  EXPECT_EQ(table_.Build().errors[0].since, At(1'000).wall);
  EXPECT_TRUE(table_.Build().errors[0].last_good_runs) << "still the pod of version 1";
  table_.Loaded("a.yaml", Version(4), Pods({"b"}), At(3'000));
  EXPECT_TRUE(table_.Build().errors.empty());
  EXPECT_EQ(PodNames(), std::vector<std::string>{"b"});
}

TEST_F(ManifestTableTest, AFileThatWasNeverGoodRunsNothing) {
  table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Failed("a.yaml", Version(1), "a.yaml: larger than the limit of 10 MiB", At(0));
  EXPECT_TRUE(table_.Build().pods.empty());
  ASSERT_EQ(table_.Build().errors.size(), 1u);
  EXPECT_FALSE(table_.Build().errors[0].last_good_runs);
  EXPECT_TRUE(table_.Observe({{"a.yaml", Version(1)}}, At(1)).read.empty())
      << "not read again and again";
}

TEST_F(ManifestTableTest, ADeletedFileTakesItsPodsAfterAMoment) {
  table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  const auto plan = table_.Observe({}, At(1'000));
  EXPECT_EQ(PodNames(), std::vector<std::string>{"a"})
      << "an editor may be about to write it again";
  ASSERT_TRUE(plan.look_again);
  EXPECT_EQ(plan.look_again->since_boot, milliseconds(1'200));
  table_.Observe({}, At(1'200));
  EXPECT_TRUE(PodNames().empty());
}

TEST_F(ManifestTableTest, DeleteAndCreateIsOneChange) {
  table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  const auto pod = table_.Build().pods[0].pod;
  table_.Observe({}, At(1'000));
  table_.Observe({{"a.yaml", Fresh(2, 1'050)}}, At(1'060));
  table_.Observe({{"a.yaml", Fresh(2, 1'050)}}, At(1'300));
  table_.Loaded("a.yaml", Fresh(2, 1'050), Pods({"a"}), At(1'300));
  EXPECT_EQ(table_.Build().pods[0].pod, pod) << "the same content is the same pod";
}

TEST_F(ManifestTableTest, WhatIsNotLookedAtStaysAsItWas) {
  table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  table_.Loaded("b.yaml", Version(1), Pods({"b"}), At(0));
  const auto plan = table_.ObserveSome({{"b.yaml", Version(2)}}, At(1'000));
  EXPECT_EQ(plan.read, (ManifestTable::Listing{{"b.yaml", Version(2)}}));
  EXPECT_EQ(table_.ObserveSome({}, At(1'001)).read, plan.read) << "until it is loaded";
  table_.Loaded("b.yaml", Version(2), Pods({"c"}), At(1'001));
  EXPECT_TRUE(table_.ObserveSome({}, At(1'002)).read.empty());
  EXPECT_EQ(PodNames(), (std::vector<std::string>{"a", "c"}));
  const auto gone = table_.ObserveSome({{"a.yaml", std::nullopt}}, At(2'000));
  ASSERT_TRUE(gone.look_again);
  EXPECT_EQ(PodNames(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(gone.look_again->since_boot, milliseconds(2'200));
  table_.ObserveSome({}, At(2'200));
  EXPECT_EQ(PodNames(), std::vector<std::string>{"c"});
  EXPECT_TRUE(table_.ObserveSome({{"x.yaml", std::nullopt}}, At(3'000)).read.empty());
  EXPECT_EQ(table_.size(), 1u) << "came and went unseen";
}

TEST_F(ManifestTableTest, ANewVersionTakesThePlaceOfTheOld) {
  table_.Loaded("a.yaml", Version(1), Pods({"a", "b"}), At(0));
  table_.Loaded("c.yaml", Version(1), Pods({"c"}), At(0));
  const PodSnapshot before = table_.Build();
  table_.Loaded("a.yaml", Version(2), Pods({"a", "b"}, "new"), At(1));
  const PodSnapshot after = table_.Build();
  ASSERT_EQ(after.pods.size(), 3u);
  EXPECT_EQ(after.pods[0].pod->metadata().uid(), "newa");
  EXPECT_EQ(after.pods[1].pod->metadata().uid(), "newb");
  EXPECT_EQ(after.pods[2], before.pods[2]);
  EXPECT_EQ(before.pods[0].pod->metadata().uid(), "ua") << "what was given out stays";
}

TEST_F(ManifestTableTest, OfTwoPodsOfOneNameTheFirstFileWins) {
  const ManifestTable::Listing listing = {{"a.yaml", Version(1)}, {"b.yaml", Version(1)}};
  table_.Observe(listing, At(0));
  table_.Loaded("b.yaml", Version(1), Pods({"web", "web"}, "b"), At(0));
  EXPECT_EQ(PodNames(), std::vector<std::string>{"web"});
  EXPECT_NE(table_.Build().errors.at(0).message.find("earlier in the same file"),
            std::string::npos);
  table_.Loaded("a.yaml", Version(1), Pods({"web"}, "a"), At(0));
  const PodSnapshot snapshot = table_.Build();
  ASSERT_EQ(snapshot.pods.size(), 1u);
  EXPECT_EQ(*snapshot.pods[0].origin, "a.yaml");
  ASSERT_EQ(snapshot.errors.size(), 2u);
  EXPECT_EQ(snapshot.errors[0].origin, "b.yaml");
  EXPECT_EQ(snapshot.errors[0].message, "b.yaml: pod default/web is already defined in a.yaml");
  EXPECT_EQ(snapshot.errors[0].since, At(0).wall);
}

TEST_F(ManifestTableTest, PodsSayWhenTheyWereSeen) {
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), {{}, {std::chrono::seconds(1'700'000'000)}});
  const auto pod = table_.Build().pods.at(0).pod;
  EXPECT_EQ(pod->metadata().annotations().at(kube::kConfigSeenAnnotation),
            "2023-11-14T22:13:20.000000000Z");
}

// With a uid in the manifest a new version has the old one's.
TEST_F(ManifestTableTest, ANewVersionOfTheSameUidIsANewObject) {
  table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  const auto before = table_.Build().pods.at(0).pod;
  table_.Observe({{"a.yaml", Version(2)}}, At(1'000));
  table_.Loaded("a.yaml", Version(2), Pods({"a"}), At(1'000));
  EXPECT_EQ(table_.Build().pods.at(0).pod, before) << "nothing has changed";
  FileObjects changed = Pods({"a"});
  auto edited = std::make_shared<corev1::Pod>(*changed.pods.at(0));
  edited->mutable_spec()->set_hostnetwork(true);
  changed.pods = {edited};
  table_.Observe({{"a.yaml", Version(3)}}, At(2'000));
  table_.Loaded("a.yaml", Version(3), changed, At(2'000));
  EXPECT_TRUE(table_.Build().pods.at(0).pod->spec().hostnetwork());
}

TEST_F(ManifestTableTest, AUidIsOnePodsOnly) {
  table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Pods({"a"}), At(0));
  table_.Loaded("b.yaml", Version(1), Pods({"b"}), At(0));
  EXPECT_EQ(PodNames(), (std::vector<std::string>{"a", "b"}));
  // b takes over a's uid, by an edit that changes no name.
  FileObjects stolen = Pods({"b"});
  auto thief = std::make_shared<corev1::Pod>(*stolen.pods.at(0));
  thief->mutable_metadata()->set_uid("ua");
  stolen.pods = {thief};
  table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(2)}}, At(1'000));
  table_.Loaded("b.yaml", Version(2), stolen, At(1'000));
  const PodSnapshot built = table_.Build();
  ASSERT_EQ(built.pods.size(), 1u);
  EXPECT_EQ(built.pods[0].pod->metadata().name(), "a");
  ASSERT_EQ(built.errors.size(), 1u);
  EXPECT_EQ(built.errors[0].message,
            "b.yaml: pod default/b: metadata.uid ua is already that of pod default/a in a.yaml");
  EXPECT_FALSE(built.errors[0].advice.empty());
  // And gives it back.
  table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(3)}}, At(2'000));
  table_.Loaded("b.yaml", Version(3), Pods({"b"}), At(2'000));
  EXPECT_EQ(PodNames(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(table_.Build().errors.empty());
}

// Versions of a file with these ConfigMaps; all values of one are the same.
FileObjects Configs(const std::vector<std::string>& names, const std::string& value,
                    bool immutable = false, ObjectKind kind = ObjectKind::kConfigMap) {
  FileObjects file;
  for (const std::string& name : names) {
    auto data = std::make_shared<ObjectData>();
    data->values["key"] = value;
    data->immutable = immutable;
    auto config = std::make_shared<ConfigObject>();
    config->ref = {kind, "default", name};
    config->data = std::move(data);
    config->metadata = std::make_shared<metav1::ObjectMeta>();
    file.configs.push_back(std::move(config));
  }
  return file;
}

std::vector<std::string> ValuesOf(const PodSnapshot& snapshot) {
  std::vector<std::string> values;
  for (const DesiredConfig& config : snapshot.configs) {
    values.push_back(config.object->ref.name + "=" + config.object->data->values.at("key"));
  }
  return values;
}

TEST_F(ManifestTableTest, ConfigMapsComeChangeAndGo) {
  (void)table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Configs({"a", "b"}, "1"), At(0));
  table_.Loaded("b.yaml", Version(1), Configs({"c"}, "1"), At(0));
  const PodSnapshot before = table_.Build();
  EXPECT_EQ(ValuesOf(before), (std::vector<std::string>{"a=1", "b=1", "c=1"}));
  table_.Loaded("b.yaml", Version(2), Configs({"c"}, "2"), At(1));
  const PodSnapshot now = table_.Build();
  EXPECT_EQ(ValuesOf(now), (std::vector<std::string>{"a=1", "b=1", "c=2"}));
  EXPECT_EQ(now.configs[0], before.configs[0]);
  table_.Loaded("a.yaml", Version(2), Configs({"b"}, "1"), At(2));
  const PodSnapshot less = table_.Build();
  EXPECT_EQ(ValuesOf(less), (std::vector<std::string>{"b=1", "c=2"}));
  EXPECT_EQ(less.configs[0].object, before.configs[1].object) << "it says the same as before";
}

TEST_F(ManifestTableTest, AConfigMapIsAsOldAsItsName) {
  const auto labelled = [](const std::string& value, const char* label) {
    FileObjects file = Configs({"a"}, value);
    auto config = std::make_shared<ConfigObject>(*file.configs.front());
    auto meta = std::make_shared<metav1::ObjectMeta>();
    (*meta->mutable_labels())["app"] = label;
    config->metadata = std::move(meta);
    file.configs.front() = std::move(config);
    return file;
  };
  const auto object = [this] { return table_.Build().configs.at(0).object; };
  (void)table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1, 999'000), labelled("1", "x"), At(0));
  const ConfigObjectPtr first = object();
  EXPECT_EQ(first->created, WallTime{milliseconds(999'000)}) << "when the file came";
  table_.Loaded("a.yaml", Version(2, 1'000'001), labelled("1", "y"), At(1));
  EXPECT_EQ(object()->metadata->labels().at("app"), "y");
  EXPECT_EQ(object()->data, first->data) << "pods are not told of labels";
  table_.Loaded("a.yaml", Version(3, 1'000'002), labelled("2", "y"), At(2));
  EXPECT_EQ(object()->data->values.at("key"), "2");
  EXPECT_EQ(object()->created, first->created) << "it is the same one";
  (void)table_.Observe({}, At(1'000));
  (void)table_.Observe({}, At(2'000));
  (void)table_.Observe({{"a.yaml", Version(4)}}, At(3'000));
  table_.Loaded("a.yaml", Version(4, 9'000'000), labelled("2", "y"), At(3'000));
  EXPECT_EQ(object()->created, At(3'000).wall) << "made again, by a clock that was set back";
}

TEST_F(ManifestTableTest, TheFirstFileThatDefinesAConfigMapHasIt) {
  (void)table_.Observe({{"a.yaml", Version(1)}, {"b.yaml", Version(1)}}, At(0));
  table_.Loaded("b.yaml", Version(1), Configs({"x", "x"}, "b"), At(0));
  table_.Loaded("a.yaml", Version(1), Configs({"x"}, "a"), At(0));
  const PodSnapshot snapshot = table_.Build();
  EXPECT_EQ(ValuesOf(snapshot), (std::vector<std::string>{"x=a"}));
  ASSERT_EQ(snapshot.errors.size(), 2u);
  EXPECT_EQ(snapshot.errors[0].message, "b.yaml: configmap default/x is already defined in a.yaml");
  table_.Loaded("a.yaml", Version(2), Configs({"x"}, "a", false, ObjectKind::kSecret), At(1));
  EXPECT_EQ(table_.Build().configs.size(), 2u) << "a Secret of that name is another object";
}

TEST_F(ManifestTableTest, WhatIsImmutableStaysUntilItsFileWasAway) {
  (void)table_.Observe({{"a.yaml", Version(1)}}, At(0));
  table_.Loaded("a.yaml", Version(1), Configs({"x"}, "1", true), At(0));
  EXPECT_TRUE(table_.Build().errors.empty());
  table_.Loaded("a.yaml", Version(2), Configs({"x"}, "2", true), At(1));
  PodSnapshot snapshot = table_.Build();
  EXPECT_EQ(ValuesOf(snapshot), (std::vector<std::string>{"x=1"}));
  ASSERT_EQ(snapshot.errors.size(), 1u);
  EXPECT_EQ(snapshot.errors[0].message,
            "a.yaml: configmap \"x\": data: Forbidden: field is immutable when `immutable` is set");
  EXPECT_TRUE(snapshot.errors[0].last_good_runs);
  table_.Loaded("a.yaml", Version(3), Configs({"x"}, "1", true), At(2));
  EXPECT_TRUE(table_.Build().errors.empty()) << "as it was";
  (void)table_.Observe({}, At(1'000));
  (void)table_.Observe({}, At(2'000));
  EXPECT_TRUE(ValuesOf(table_.Build()).empty());
  (void)table_.Observe({{"a.yaml", Version(4)}}, At(3'000));
  table_.Loaded("a.yaml", Version(4), Configs({"x"}, "2", true), At(3'000));
  EXPECT_EQ(ValuesOf(table_.Build()), (std::vector<std::string>{"x=2"}));
}

}  // namespace
}  // namespace holdfast::agent
