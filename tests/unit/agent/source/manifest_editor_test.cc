// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_editor.h"

#include <sys/stat.h>

#include "agent/source/manifest_file.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/unit/agent/source/source_fixture.h"

namespace holdfast::agent {
namespace {

class ManifestEditorTest : public SourceTest {
 protected:
  EditOutcome Outcome(const std::string& manifest) {
    auto done = Editor().Apply(manifest, "stdin");
    EXPECT_TRUE(done) << done.error().message();
    return done->at(0).outcome;
  }
  ManifestEditor& Editor() {
    if (!editor_) editor_ = std::make_unique<ManifestEditor>(dir_, "Node");
    return *editor_;
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir_), {}));
  }
  std::unique_ptr<ManifestEditor> editor_;
};

TEST_F(ManifestEditorTest, CreatesConfiguresLeavesUnchangedDeletes) {
  EXPECT_EQ(Outcome(PodYaml("web", "nginx:1")), EditOutcome::kCreated);
  EXPECT_EQ(Outcome(PodYaml("web", "nginx:1")), EditOutcome::kUnchanged);
  EXPECT_EQ(Outcome("# comment\n" + PodYaml("web", "nginx:1")), EditOutcome::kUnchanged);
  EXPECT_EQ(Outcome(PodYaml("web", "nginx:2")), EditOutcome::kConfigured);
  EXPECT_EQ(Files(), 1u);
  struct stat st{};
  ASSERT_EQ(::stat((dir_ + "/pod_default_web.yaml").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0600u);
  // What is written is a manifest that the source reads.
  const FileObjects pods = ReadFileObjects("pod_default_web.yaml", ReadBack("pod_default_web.yaml"),
                                           {dir_, "node", true});
  ASSERT_TRUE(pods.valid) << pods.message;
  EXPECT_EQ(pods.pods.at(0)->spec().containers(0).image(), "nginx:2");
  auto deleted = Editor().Delete("Pod", "default", "web-node");
  ASSERT_TRUE(deleted) << deleted.error().message();
  EXPECT_EQ(deleted->name, "web");
  EXPECT_EQ(Files(), 0u);
  auto absent = Editor().Delete("Pod", "default", "web");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), Code::kNotFound);
  EXPECT_EQ(absent.error().message(), "pods \"web\" not found");
}

TEST_F(ManifestEditorTest, OneFilePerObjectAndAllOrNothing) {
  auto done = Editor().Apply(PodYaml("a") + "---\n" + PodYaml("b"), "two.yaml");
  ASSERT_TRUE(done);
  EXPECT_EQ(done->size(), 2u);
  EXPECT_EQ(Files(), 2u);
  auto refused = Editor().Apply(
      PodYaml("c") + "---\n" + PodYaml("BAD") + "---\n" + PodYaml("WORSE"), "x.yaml");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("x.yaml:"), std::string::npos)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find("WORSE"), std::string::npos) << "every fault at once";
  EXPECT_EQ(Files(), 2u);
  EXPECT_FALSE(Editor().Apply(PodYaml("d") + "---\n" + PodYaml("d"), "x.yaml")) << "twice the same";
  EXPECT_FALSE(Editor().Apply("", "x.yaml"));
}

TEST_F(ManifestEditorTest, DryRunWritesNothing) {
  auto done = Editor().Apply(PodYaml("a"), "a.yaml", true);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->at(0).outcome, EditOutcome::kCreated);
  EXPECT_EQ(Files(), 0u);
}

TEST_F(ManifestEditorTest, AGivenNamespaceIsForObjectsThatNameNone) {
  auto done = Editor().Apply(PodYaml("a"), "a.yaml", false, "other");
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->at(0).object_namespace, "other");
  EXPECT_EQ(done->at(0).file, "pod_other_a.yaml");
  EXPECT_NE(ReadBack("pod_other_a.yaml").find("namespace: other"), std::string::npos);
  const std::string elsewhere =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: prod}\n"
      "spec: {containers: [{name: c, image: i}]}\n";
  auto refused = Editor().Apply(elsewhere, "b.yaml", false, "other");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "b.yaml:3:32: metadata.namespace: the namespace from the provided object \"prod\" does "
            "not match the namespace \"other\". You must pass '--namespace=prod' to perform this "
            "operation.");
  EXPECT_TRUE(Editor().Apply(elsewhere, "b.yaml", false, "prod"));
  EXPECT_FALSE(Editor().Apply(PodYaml("c"), "c.yaml", false, "No/Namespace"));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(ManifestEditorTest, SomebodyElsesFileIsNeverTouched) {
  Write("mine.yaml", PodYaml("web") + "---\n" + PodYaml("other"));
  Write("pod_default_late.yaml", PodYaml("late"));
  const std::string before = ReadBack("mine.yaml");
  for (const std::string name : {"web", "other"}) {
    auto applied = Editor().Apply(PodYaml(name, "changed:1"), "x.yaml");
    ASSERT_FALSE(applied);
    EXPECT_EQ(applied.error().code(), Code::kConflict);
    EXPECT_NE(applied.error().message().find(dir_ + "/mine.yaml"), std::string::npos)
        << applied.error().message();
    auto deleted = Editor().Delete("Pod", "default", name);
    ASSERT_FALSE(deleted);
    EXPECT_EQ(deleted.error().code(), Code::kConflict);
  }
  EXPECT_EQ(Editor().Apply(PodYaml("late", "x:1"), "x.yaml").error().code(), Code::kConflict)
      << "also when it bears our name";
  EXPECT_EQ(Editor().Delete("Pod", "default", "late").error().code(), Code::kConflict);
  EXPECT_EQ(ReadBack("mine.yaml"), before);
  EXPECT_EQ(Files(), 2u);
}

// What it knows of a file is that file's, and no older.
TEST_F(ManifestEditorTest, EveryChangeOfOthersCounts) {
  EXPECT_EQ(Outcome(PodYaml("a")), EditOutcome::kCreated);
  Write("mine.yaml", PodYaml("web"));
  EXPECT_EQ(Editor().Apply(PodYaml("web"), "stdin").error().code(), Code::kConflict);
  Write("mine.yaml", PodYaml("other"));
  EXPECT_EQ(Outcome(PodYaml("web")), EditOutcome::kCreated);
  EXPECT_EQ(Editor().Apply(PodYaml("other"), "stdin").error().code(), Code::kConflict);
  std::filesystem::remove(dir_ + "/mine.yaml");
  EXPECT_EQ(Outcome(PodYaml("other")), EditOutcome::kCreated);
  Place("pod_default_a.yaml", PodYaml("a"));  // without the marker it is somebody else's
  EXPECT_EQ(Editor().Delete("Pod", "default", "a").error().code(), Code::kConflict);
}

// Nobody tells of a change of what a link leads to, and the path may name another directory by now.
TEST_F(ManifestEditorTest, ChangesThatAreNotTheDirectorysCountToo) {
  std::ofstream(base_ + "/elsewhere") << PodYaml("web");
  std::filesystem::create_symlink(base_ + "/elsewhere", dir_ + "/link.yaml");
  EXPECT_EQ(Editor().Apply(PodYaml("web"), "stdin").error().code(), Code::kConflict);
  std::ofstream(base_ + "/elsewhere") << PodYaml("other");
  EXPECT_EQ(Outcome(PodYaml("web")), EditOutcome::kCreated);
  EXPECT_EQ(Editor().Apply(PodYaml("other"), "stdin").error().code(), Code::kConflict);

  std::filesystem::rename(dir_, base_ + "/former");
  std::filesystem::create_directory(dir_);
  Write("mine.yaml", PodYaml("web"));
  EXPECT_EQ(Editor().Apply(PodYaml("web"), "stdin").error().code(), Code::kConflict);
  EXPECT_EQ(Outcome(PodYaml("other")), EditOutcome::kCreated);
}

TEST_F(ManifestEditorTest, RecoverRemovesItsOwnHalfWrittenFilesOnly) {
  Write(".pod_default_web.yaml.77.tmp", "half");
  Write(".secret_default_key.yaml.77.tmp", "half");
  Write(".configmap_default_conf.yaml.77.tmp", "half");
  Write(".somebody.77.tmp", "half");
  ASSERT_TRUE(Editor().Recover());
  EXPECT_EQ(Files(), 1u);
  EXPECT_EQ(ReadBack(".somebody.77.tmp"), "half");
}

TEST_F(ManifestEditorTest, NamespacesAndLongNamesDoNotCollide) {
  const auto in = [](const std::string& space, const std::string& name) {
    return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + space +
           "}\nspec: {containers: [{name: c, image: i:1}]}\n";
  };
  ASSERT_TRUE(Editor().Apply(in("a-b", "c"), "x"));
  ASSERT_TRUE(Editor().Apply(in("a", "b-c"), "x"));
  EXPECT_EQ(Files(), 2u);
  const std::string longest = std::string(247, 'x');  // and "-Node" behind it
  ASSERT_TRUE(Editor().Apply(in("a", longest + "y"), "x"));
  ASSERT_TRUE(Editor().Apply(in("a", longest + "z"), "x"));
  EXPECT_EQ(Files(), 4u);
  EXPECT_TRUE(Editor().Delete("Pod", "a", longest + "y"));
  EXPECT_TRUE(Editor().Delete("Pod", "a", longest + "z"));
  EXPECT_TRUE(Editor().Delete("Pod", "a-b", "c"));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(ManifestEditorTest, OurFileThatWasBrokenByHandCanStillBeDeleted) {
  ASSERT_TRUE(Editor().Apply(PodYaml("web"), "x"));
  const std::string text = ReadBack("pod_default_web.yaml");
  Write("pod_default_web.yaml", text + "\tbroken: [\n");
  auto deleted = Editor().Delete("Pod", "default", "web");
  ASSERT_TRUE(deleted) << deleted.error().message();
  EXPECT_EQ(Files(), 0u);
}

constexpr char kService[] =
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";

TEST_F(ManifestEditorTest, ServicesAndSlicesHaveFilesOfTheirOwn) {
  auto done = Editor().Apply(PodYaml("web") + "---\n" + kService +
                                 "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
                                 "metadata: {name: web}\naddressType: IPv4\nendpoints: []\n",
                             "all.yaml");
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->at(1).file, "service_default_web.yaml");
  EXPECT_EQ(done->at(2).file, "endpointslice_default_web.yaml");
  EXPECT_EQ(Editor().Delete("Service", "default", "web")->kind, "Service");
  EXPECT_EQ(Editor().Delete("Service", "default", "web").error().message(),
            "services \"web\" not found");
  EXPECT_EQ(Editor().Delete("Deployment", "default", "web").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Files(), 2u) << "the pod of the same name stays";
}

TEST_F(ManifestEditorTest, AFaultyServiceIsRefused) {
  auto refused = Editor().Apply(
      "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 0}]}\n", "s");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("spec.ports[0].port: Invalid value: 0"),
            std::string::npos)
      << refused.error().message();
}

// A file that is written is one that the directory takes.
TEST_F(ManifestEditorTest, APodThatTheNodeCannotRunIsRefused) {
  const auto fault_of = [&](const std::string& manifest) {
    const auto refused = Editor().Apply(manifest, "x.yaml");
    EXPECT_FALSE(refused);
    const FileObjects read = ReadFileObjects("x.yaml", manifest, {dir_, "Node", true});
    EXPECT_FALSE(read.valid);
    if (refused) return std::string();
    EXPECT_EQ(refused.error().message(), read.message);
    return refused.error().message();
  };
  const std::string long_name = std::string(200, 'n') + "." + std::string(50, 'n');
  EXPECT_NE(fault_of(PodYaml(long_name)).find("with the suffix \"-Node\""), std::string::npos);
  EXPECT_NE(fault_of(PodYaml("gated") + "  schedulingGates: [{name: a/b}]\n")
                .find("spec.schedulingGates: Forbidden"),
            std::string::npos);
  EXPECT_EQ(Files(), 0u);
}

TEST_F(ManifestEditorTest, AMissingDirectoryIsMade) {
  std::filesystem::remove(dir_);
  EXPECT_EQ(Editor().Delete("Pod", "default", "web").error().code(), Code::kNotFound);
  EXPECT_EQ(Outcome(PodYaml("web")), EditOutcome::kCreated);
  EXPECT_EQ(Files(), 1u);
}

std::string WithUid(const std::string& name, const std::string& uid) {
  std::string text = PodYaml(name);
  const size_t at = text.find("name: " + name);
  return text.substr(0, at) + "uid: \"" + uid + "\"\n  " + text.substr(at);
}

TEST_F(ManifestEditorTest, AUidThatCannotBeUsedOrIsAnotherPodsIsRefused) {
  for (const char* uid : {"../../x", ".hidden", "a b"}) {
    auto refused = Editor().Apply(WithUid("web", uid), "x.yaml");
    ASSERT_FALSE(refused) << uid;
    EXPECT_NE(refused.error().message().find("metadata.uid: not usable as a name"),
              std::string::npos)
        << refused.error().message();
  }
  ASSERT_TRUE(Editor().Apply(WithUid("web", "one"), "x.yaml"));
  ASSERT_TRUE(Editor().Apply(WithUid("web", "one"), "x.yaml")) << "its own";
  auto refused = Editor().Apply(WithUid("copy", "one"), "x.yaml");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_NE(refused.error().message().find(
                "pod default/copy: metadata.uid one is already that of pod default/web"),
            std::string::npos)
      << refused.error().message();
  EXPECT_EQ(Files(), 1u);
}

std::string ConfigYaml(const std::string& kind, const std::string& rest,
                       const std::string& meta = "") {
  return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: x" + meta + "}\n" + rest;
}

TEST_F(ManifestEditorTest, ConfigMapsAndSecretsAreFilesThatOnlyTheirOwnerReads) {
  const std::string text =
      "a: |\n    one\n      two\n    \"three\": \\t # four\n  b: \"\\ttab\\r\\n \"\n";
  for (const char* kind : {"ConfigMap", "Secret"}) {
    const bool secret = std::string(kind) == "Secret";
    const std::string field = secret ? "stringData:\n  " : "data:\n  ";
    const std::string name = secret ? "secret_default_x.yaml" : "configmap_default_x.yaml";
    EXPECT_EQ(Outcome(ConfigYaml(kind, field + text)), EditOutcome::kCreated);
    EXPECT_EQ(Outcome(ConfigYaml(kind, field + text)), EditOutcome::kUnchanged);
    struct stat st{};
    ASSERT_EQ(::stat((dir_ + "/" + name).c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777u, 0600u);
    const FileObjects read = ReadFileObjects(name, ReadBack(name), {dir_, "node", true});
    ASSERT_TRUE(read.valid) << read.message;
    EXPECT_EQ(read.configs.at(0)->data->values,
              (std::map<std::string, std::string>{{"a", "one\n  two\n\"three\": \\t # four\n"},
                                                  {"b", "\ttab\r\n "}}))
        << "what was written is what was given";
    EXPECT_EQ(Outcome(ConfigYaml(kind, "")), EditOutcome::kConfigured);
    auto deleted = Editor().Delete(kind, "default", "x");
    ASSERT_TRUE(deleted) << deleted.error().message();
    EXPECT_EQ(deleted->file, name);
    auto absent = Editor().Delete(kind, "default", "x");
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().message(),
              secret ? "secrets \"x\" not found" : "configmaps \"x\" not found");
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(ManifestEditorTest, WhatIsImmutableIsNotReplaced) {
  EXPECT_EQ(Outcome(ConfigYaml("ConfigMap", "data: {a: \"1\"}\nimmutable: true\n")),
            EditOutcome::kCreated);
  const std::string before = ReadBack("configmap_default_x.yaml");
  auto refused = Editor().Apply(ConfigYaml("ConfigMap", "data: {a: \"2\"}\n"), "stdin");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message(),
            "The ConfigMap \"x\" is invalid: immutable: Forbidden: field is immutable when "
            "`immutable` is set\nThe ConfigMap \"x\" is invalid: data: Forbidden: field is "
            "immutable when `immutable` is set");
  EXPECT_EQ(ReadBack("configmap_default_x.yaml"), before);
  EXPECT_EQ(
      Outcome(ConfigYaml("ConfigMap", "data: {a: \"1\"}\nimmutable: true\n", ", labels: {a: b}")),
      EditOutcome::kConfigured)
      << "its labels may change";
}

}  // namespace
}  // namespace holdfast::agent
