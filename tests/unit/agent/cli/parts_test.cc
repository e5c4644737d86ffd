// SPDX-License-Identifier: Apache-2.0
// jsonpath, names, detach keys, tar, output forms.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/cli/jsonpath.h"
#include "agent/cli/manifests.h"
#include "agent/cli/object.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "agent/cli/session.h"
#include "agent/cli/tar_writer.h"
#include "agent/cli/terminal.h"
#include "agent/cli/version.h"
#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

core::Pod MakePod(const std::string& name, const std::string& name_space = "default") {
  core::Pod pod;
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_namespace_(name_space);
  (*pod.mutable_metadata()->mutable_labels())["app.kubernetes.io/name"] = "web";
  pod.mutable_spec()->set_nodename("node1");
  for (const char* container : {"app", "log"}) {
    auto* added = pod.mutable_spec()->add_containers();
    added->set_name(container);
    added->set_image(std::string("image-") + container);
  }
  pod.mutable_status()->set_phase("Running");
  pod.mutable_status()->set_podip("10.88.0.5");
  for (const char* type : {"Initialized", "Ready"}) {
    auto* condition = pod.mutable_status()->add_conditions();
    condition->set_type(type);
    condition->set_status("True");
  }
  return pod;
}

// What kubectl prints for the same templates; tests/kube/printing has thousands more.
TEST(JsonPathTest, AsInKubectl) {
  const kube::Node tree = kube::ToTree(MakePod("web"));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{.status.podIP}", "10.88.0.5"},
      {"{.status.nothing.at.all}", ""},
      {"plain", "plain"},
      {"{.metadata.name}{\"\\n\"}", "web\n"},
      {"{\"\\u0041\\x42\\t\\\"\"}{'\\n'}", "AB\t\"\n"},
      {"{.spec.containers[0].name}", "app"},
      {"{.spec.containers[-1].name}", "log"},
      {"{.spec.containers[*].name}", "app log"},
      {"{.spec.containers[0:1].name}", "app"},
      {"{.spec.containers[1:1].name}", ""},
      {"{.spec.containers[1:].name}", "log"},
      {"{.spec.containers[::2].name}", "app"},
      {"{.spec.containers[0:2:1].name}", "app log"},
      {"{.spec.containers[1,0].name}", "log app"},
      {"{.spec.containers[*]['name','image']}", "app log image-app image-log"},
      {"{.spec.containers[*]['name', 'image']}", "app log image-app image-log"},
      {"{.status['phase','podIP']}", "Running 10.88.0.5"},
      {"{['metadata.name','status.podIP']}", "web 10.88.0.5"},
      {"{.spec.containers[0]}", R"({"image":"image-app","name":"app","resources":{}})"},
      {"{.metadata.labels}", R"({"app.kubernetes.io/name":"web"})"},
      {"{range .spec.containers[*]}{.name}={.image};{end}!", "app=image-app;log=image-log;!"},
      {"{range .spec.containers[0,1]}[{.name}]{end}", "[app][log]"},
      {"{.status.conditions[?(@.type==\"Ready\")].status}", "True"},
      {"{.status.conditions[?(@.type!='Ready')].type}", "Initialized"},
      {"{.status.conditions[?(@.nothing!='x')].type}", ""},
      {"{.metadata.labels['app.kubernetes.io/name']}", "web"},  // beyond kubectl
      {"{.metadata.name \"x\"}", "x"},
      {"{range .nothing[*]}never{end}!", "!"},
      {"{range .spec.containers[*]}{range ['name','image']}{@},{end};{end}",
       "app,image-app,;log,image-log,;"},
      {"{.spec.containers[?(@.name)].name}", "app log"},
      {"{.spec.containers[]..name}", "app"},
      {"{1}{-2.50}{true}", "1-2.5true"},
      {"{.metadata.labels['app\\.kubernetes\\.io/name']}", "web"},
      {"{.metadata.labels.app\\.kubernetes\\.io/name}", "web"},
      {"{..image}", "image-app image-log"},
      {"{.metadata.name} on {.spec.nodeName}", "web on node1"},
      {"{.metadata .name}", "web"},  // one path
      {"{.nothing[3]}", ""},
  };
  for (const auto& [path, text] : cases) {
    const auto parsed = JsonPath::Parse(path);
    ASSERT_TRUE(parsed.has_value()) << path << ": " << parsed.error().message();
    const auto printed = parsed->Apply(tree);
    ASSERT_TRUE(printed.has_value()) << path << ": " << printed.error().message();
    EXPECT_EQ(*printed, text) << path;
  }
  const std::string whole = JsonPath::Parse("{}")->Apply(tree).value();
  EXPECT_EQ(whole, kube::SortedCompactJson(tree));
  EXPECT_TRUE(whole.starts_with(R"({"apiVersion":"v1","kind":"Pod","metadata":{)")) << whole;
}

TEST(JsonPathTest, WhatDoesNotFitIsAnError) {
  const kube::Node tree = kube::ToTree(MakePod("web"));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{.spec.containers[9]}", "array index out of bounds: index 9, length 2"},
      {"{.spec.containers[-3]}", "array index out of bounds: index -1, length 2"},
      {"{.spec.containers[0:5]}", "array index out of bounds: index 4, length 2"},
      {"{.spec.containers[0,5]}", "array index out of bounds: index 5, length 2"},
      {"{.metadata[0]}", "map[string]interface {} is not array or slice"},
      {"{.metadata.name[0]}", "string is not array or slice"},
      {"{.spec.containers[?(@.name==1)]}", "incompatible types for comparison"},
      {"{.spec.containers[?(@.resources==1)]}", "invalid type for comparison"},
      {"{.spec.containers[::0]}", "step must be > 0"},
      {"{end}", "not in range, nothing to end"},
      {"{word}", "unrecognized identifier word"},
  };
  for (const auto& [path, why] : cases) {
    const auto printed = JsonPath::Parse(path)->Apply(tree);
    ASSERT_FALSE(printed.has_value()) << path << " gave " << *printed;
    EXPECT_EQ(printed.error().message(), why) << path;
  }
}

TEST(JsonPathTest, RefusesWhatItCannotRead) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{", "unclosed action"},
      {"{.a", "unclosed action"},
      {"{.a[}", "unterminated array"},
      {"{.a[?(@.b==\"c]}", "unterminated filter"},
      {"{.a[?(@.b)}", "unclosed array expect ]"},
      {"{\"x}", "unterminated quoted string"},
      {"{.a[\"b\"]}", "invalid array index \"b\""},
      {"{.a[b]}", "invalid array index b"},
      {"{.a[-]}", "array index - is not a number"},
      {"{.a,.b}", "unrecognized character in action: U+002C ','"},
      {"{\"\\q\"}", "unquote string \"\\q\" error invalid syntax"},
      {"{\"\\u00\"}", "unquote string \"\\u00\" error invalid syntax"},
      {"{\"\\ud800\"}", "unquote string \"\\ud800\" error invalid syntax"},
      {"{1.2.3}", "cannot parse number 1.2.3"},
      {"{....a}", "invalid multiple recursive descent"},
  };
  for (const auto& [bad, why] : cases) {
    const auto parsed = JsonPath::Parse(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().message(), why) << bad;
  }
}

TEST(PickObjectsTest, ExactThenUniqueBeginning) {
  std::vector<Object> pods;
  for (const auto& pod : {MakePod("web"), MakePod("web-node1"), MakePod("db-node1"),
                          MakePod("db2-node1"), MakePod("other", "prod")}) {
    pods.push_back(MakeObject(Resource::kPods, pod));
  }
  const auto pick = [&](const char* text) {
    const auto found = PickObjects(pods, Resource::kPods, ParsePodName(text, "default"));
    return found ? found->front().meta->name() : found.error().message();
  };
  EXPECT_EQ(pick("web"), "web");
  EXPECT_EQ(pick("web-"), "web-node1");
  EXPECT_EQ(pick("pod/web"), "web");
  EXPECT_EQ(pick("db2"), "db2-node1");
  EXPECT_EQ(pick("prod/oth"), "other");
  EXPECT_EQ(pick("db"), "db-node1");  // its name in the manifest, not a beginning
  EXPECT_EQ(pick("d"), "\"d\" is the beginning of several pods: db-node1, db2-node1");
  EXPECT_EQ(pick("x"), "pods \"x\" not found");
  EXPECT_EQ(pick("other"), "pods \"other\" not found");
  EXPECT_EQ(pick(""), "pods \"\" not found");
}

TEST(ExplainTest, KubernetesWords) {
  EXPECT_EQ(Explain({grpc::StatusCode::NOT_FOUND, "pods \"x\" not found"}),
            "Error from server (NotFound): pods \"x\" not found");
  EXPECT_EQ(Explain({grpc::StatusCode::PERMISSION_DENIED, "no"}),
            "Error from server (Forbidden): no");
}

TEST(DetachFilterTest, HoldsBackOnlyWhatMayBeTheBeginning) {
  DetachFilter filter;
  EXPECT_EQ(filter.Pass("ab\x10"), "ab");
  EXPECT_EQ(filter.Pass("c"),
            "\x10"
            "c");
  EXPECT_EQ(filter.Pass("\x10\x10"), "\x10");
  EXPECT_FALSE(filter.detached());
  EXPECT_EQ(filter.Pass("\x11rest"), "");
  EXPECT_TRUE(filter.detached());
}

TEST(OutputTest, Forms) {
  const std::vector<Object> pods = {MakeObject(Resource::kPods, MakePod("web"))};
  const auto print = [&](const char* form, bool single) {
    return PrintObjects(*ParseOutput(form), pods, single).value();
  };
  EXPECT_EQ(print("name", false), "pod/web\n");
  EXPECT_EQ(print("jsonpath={.items[0].metadata.name}{.kind}{.apiVersion}", false), "webListv1");
  EXPECT_EQ(print("jsonpath={.kind}", true), "Pod");
  EXPECT_TRUE(print("yaml", true)
                  .starts_with("apiVersion: v1\n"
                               "kind: Pod\n"));
  EXPECT_NE(print("json", false).find("\"kind\": \"List\""), std::string::npos);
  EXPECT_EQ(print("custom-columns=NAME:.metadata.name,NONE:.a.b,C:.spec.containers[*].name", false),
            "NAME   NONE     C\n"
            "web    <none>   app,log\n");
  const std::vector<std::pair<const char*, const char*>> refused = {
      {"csv",
       "unable to match a printer suitable for the output format \"csv\", allowed formats "
       "are: custom-columns,custom-columns-file,json,jsonpath,jsonpath-as-json,jsonpath-file,name,"
       "table,wide,yaml"},
      {"jsonpath=", "template format specified but no template given"},
      {"custom-columns", "custom-columns format specified but no custom columns given"},
      {"custom-columns=", "custom-columns format specified but no custom columns given"},
      {"custom-columns=A", "unexpected custom-columns spec: A, expected <header>:<json-path-expr>"},
  };
  for (const auto& [form, why] : refused) {
    const auto bad = ParseOutput(form);
    ASSERT_FALSE(bad.has_value()) << form;
    EXPECT_EQ(bad.error().message(), why);
  }
}

TEST(OutputTest, EveryNameOfAnImage) {
  v1::Image image;
  image.set_id("sha256:ab");
  v1::Image nameless = image;
  image.add_repo_tags("a:1");
  image.add_repo_tags("b:2");
  EXPECT_EQ(PrintImages(*ParseOutput("name"), {image, nameless}, false).value(),
            "a:1\nb:2\nsha256:ab\n");
}

TEST(OutputTest, Documents) {
  kube::Node tree = kube::Node::Map();
  tree.Add("b", kube::Node::Int(1));
  tree.Add("a", kube::Node::String("x"));
  EXPECT_EQ(PrintDocument(*ParseDocumentOutput("json"), tree),
            "{\n    \"a\": \"x\",\n    \"b\": 1\n}\n");
  EXPECT_EQ(PrintDocument(*ParseDocumentOutput("yaml"), tree), "a: x\nb: 1\n");
  EXPECT_TRUE(ParseDocumentOutput("")->IsTable());
  for (const char* bad : {"wide", "name", "table", "jsonpath={.a}", "csv"}) {
    const auto refused = ParseDocumentOutput(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_TRUE(refused.error().message().ends_with("allowed formats are: json,yaml"));
  }
}

TEST(VersionTest, IsKubectlsDocument) {
  v1::VersionResponse server;
  server.set_version("1.22.3");
  server.set_api_version("holdfast.v1");
  server.set_node_name("node1");
  server.set_kernel("6.1.0");
  const kube::Node both = VersionDocument(&server);
  const auto text = [](const kube::Node& tree, std::string_view part, std::string_view key) {
    return tree.Find(part)->Find(key)->text;
  };
  EXPECT_EQ(text(both, "serverVersion", "major"), "1");
  EXPECT_EQ(text(both, "serverVersion", "minor"), "22");
  EXPECT_EQ(text(both, "serverVersion", "gitVersion"), "v1.22.3");
  EXPECT_EQ(text(both, "serverVersion", "apiVersion"), "holdfast.v1");
  EXPECT_EQ(text(both, "serverVersion", "nodeName"), "node1");
  EXPECT_EQ(text(both, "serverVersion", "kernelVersion"), "6.1.0");
  EXPECT_TRUE(text(both, "clientVersion", "gitVersion").starts_with("v"));
  EXPECT_TRUE(text(both, "clientVersion", "platform").starts_with("linux"));
  EXPECT_EQ(VersionDocument(nullptr).Find("serverVersion"), nullptr);
  EXPECT_EQ(VersionText(&server), VersionText(nullptr) +
                                      "Server Version: 1.22.3\nAPI: holdfast.v1\nNode: node1\n"
                                      "Kernel: 6.1.0\n");
}

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "holdctl-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void Put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name) << text;
  }
  std::string dir_;
};

TEST_F(FilesTest, DirectoriesGiveTheirManifestsInOrder) {
  Put("b.yaml", "2");
  Put("a.json", "1");
  Put("note.txt", "x");
  Put("sub/c.yml", "3");
  const auto flat = ReadManifests({dir_}, false);
  ASSERT_TRUE(flat.has_value());
  ASSERT_EQ(flat->size(), 2u);
  EXPECT_EQ(flat->at(0).text, "1");
  EXPECT_EQ(flat->at(1).origin, dir_ + "/b.yaml");
  EXPECT_EQ(ReadManifests({dir_}, true)->size(), 3u);
  EXPECT_EQ(ReadManifests({dir_ + "/none"}, false).error().code(), Code::kNotFound);
}

TEST_F(FilesTest, TarIsReadByTar) {
  Put("index.json", "{}");
  Put("blobs/sha256/" + std::string(64, 'a'), std::string(70'000, 'x'));
  Put("empty", "");
  const std::string archive = dir_ + ".tar";
  {
    std::ofstream out(archive, std::ios::binary);
    const auto written = WriteTar(dir_, [&](std::string_view bytes) {
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      return true;
    });
    ASSERT_TRUE(written.has_value()) << written.error().message();
  }
  const std::string target = dir_ + "/out";
  std::filesystem::create_directory(target);
  ASSERT_EQ(std::system(("tar -xf " + archive + " -C " + target).c_str()), 0);
  EXPECT_EQ(std::filesystem::file_size(target + "/blobs/sha256/" + std::string(64, 'a')), 70'000u);
  EXPECT_EQ(std::filesystem::file_size(target + "/empty"), 0u);
  EXPECT_TRUE(std::filesystem::exists(target + "/index.json"));
  std::filesystem::remove(archive);
}

TEST_F(FilesTest, TarRefusesSymlinks) {
  std::filesystem::create_symlink("/etc/passwd", dir_ + "/link");
  EXPECT_FALSE(WriteTar(dir_, [](std::string_view) { return true; }).has_value());
}

}  // namespace
}  // namespace holdfast::agent::cli
