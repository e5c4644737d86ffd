// SPDX-License-Identifier: Apache-2.0
// The codec against the golden files of the public Go module k8s.io/api: for every kind that we
// carry the same fully populated object as .pb, .json and .yaml, written by Kubernetes itself.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/kube/codec.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/print.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

namespace holdfast::agent::kube {
namespace {

namespace fs = std::filesystem;

constexpr char kModule[] = "k8s.io/api@v0.36.3/testdata";

// HOLDFAST_GOLDEN_DIR, else where tests/support/fetch-golden puts the module.
fs::path FindGoldenDir() {
  if (const char* dir = ::getenv("HOLDFAST_GOLDEN_DIR")) return dir;
  std::string cache;
  if (FILE* go = ::popen("cd / && go env GOMODCACHE", "r")) {
    char buffer[4096];
    while (::fgets(buffer, sizeof buffer, go) != nullptr) cache += buffer;
    ::pclose(go);
  }
  while (cache.ends_with('\n')) cache.pop_back();
  return fs::path(cache) / kModule;
}

const fs::path& GoldenDir() {
  static const fs::path dir = FindGoldenDir();
  return dir;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path << " is missing; run tests/support/fetch-golden";
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool HasUnknownFields(const google::protobuf::Message& message) {
  const auto& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) return true;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (HasUnknownFields(reflection.GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      if (HasUnknownFields(reflection.GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

struct GoldenCase {
  const char* group;  // as in the file names
  const char* kind;
};

class GoldenTest : public ::testing::TestWithParam<GoldenCase> {
 protected:
  std::string File(std::string_view release, std::string_view ending) const {
    const std::string stem = std::string(GetParam().group) + "." + GetParam().kind;
    const fs::path dir = GoldenDir() / release;
    // What Kubernetes itself no longer writes as it was read has a second set of files.
    const fs::path after = dir / (stem + ".after_roundtrip" + std::string(ending));
    return ReadFile(fs::exists(after) ? after : dir / (stem + std::string(ending)));
  }
};

TEST_P(GoldenTest, ProtobufToJsonAndYaml) {
  const std::string bytes = File("HEAD", ".pb");
  auto object = DecodeEnvelope(bytes);
  ASSERT_TRUE(object.has_value()) << object.error().message();
  EXPECT_FALSE(HasUnknownFields(**object));
  // The files are pretty-printed; the order of their fields is that of the API server.
  ParsedText json = ParseJson(File("HEAD", ".json"));
  ASSERT_EQ(json.documents.size(), 1u);
  EXPECT_EQ(EncodeJson(**object), CompactJson(json.documents[0]));
  EXPECT_EQ(PrintYaml(**object), File("HEAD", ".yaml"));
  EXPECT_EQ(EncodeEnvelope(**object), bytes);
}

TEST_P(GoldenTest, JsonToProtobuf) {
  auto object = DecodeJson(File("HEAD", ".json"));
  ASSERT_TRUE(object.has_value()) << object.error().message();
  EXPECT_EQ(EncodeEnvelope(**object), File("HEAD", ".pb"));
}

TEST_P(GoldenTest, YamlToProtobufStrictly) {
  Manifest manifest = ReadManifest("golden.yaml", File("HEAD", ".yaml"));
  EXPECT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  ASSERT_EQ(manifest.objects.size(), 1u);
  EXPECT_EQ(EncodeEnvelope(*manifest.objects[0].object), File("HEAD", ".pb"));
}

TEST_P(GoldenTest, ObjectsOfOlderReleases) {
  for (const std::string_view release : {"v1.33.0", "v1.34.0", "v1.35.0"}) {
    SCOPED_TRACE(release);
    auto object = DecodeEnvelope(File(release, ".pb"));
    ASSERT_TRUE(object.has_value()) << object.error().message();
    EXPECT_EQ(PrintYaml(**object), File(release, ".yaml"));
    auto from_json = DecodeJson(File(release, ".json"));
    ASSERT_TRUE(from_json.has_value()) << from_json.error().message();
    EXPECT_EQ(EncodeJson(**from_json), EncodeJson(**object));
  }
}

constexpr GoldenCase kCases[] = {
    {"core.v1", "Pod"},
    {"core.v1", "PodTemplate"},
    {"core.v1", "Service"},
    {"core.v1", "ConfigMap"},
    {"core.v1", "Secret"},
    {"core.v1", "Node"},
    {"core.v1", "Event"},
    {"core.v1", "Namespace"},
    {"core.v1", "ServiceAccount"},
    {"core.v1", "Status"},
    {"core.v1", "DeleteOptions"},
    {"core.v1", "GetOptions"},
    {"core.v1", "ListOptions"},
    {"core.v1", "CreateOptions"},
    {"core.v1", "UpdateOptions"},
    {"core.v1", "PatchOptions"},
    {"apps.v1", "Deployment"},
    {"discovery.k8s.io.v1", "EndpointSlice"},
    {"coordination.k8s.io.v1", "Lease"},
    {"core.v1", "PersistentVolume"},
    {"core.v1", "PersistentVolumeClaim"},
    {"certificates.k8s.io.v1", "CertificateSigningRequest"},
    {"authentication.k8s.io.v1", "TokenRequest"},
    {"authentication.k8s.io.v1", "TokenReview"},
    {"authorization.k8s.io.v1", "SubjectAccessReview"},
    {"authorization.k8s.io.v1", "SelfSubjectAccessReview"},
    {"storage.k8s.io.v1", "CSINode"},
    {"storage.k8s.io.v1", "CSIDriver"},
    {"storage.k8s.io.v1", "VolumeAttachment"},
    {"node.k8s.io.v1", "RuntimeClass"},
    {"policy.v1", "Eviction"},
    {"networking.k8s.io.v1", "ServiceCIDR"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.kind); });

// A watch event does not say its kind, in no form.
TEST(GoldenWatchEventTest, AgreesInBothDirections) {
  const fs::path stem = GoldenDir() / "HEAD" / "core.v1.WatchEvent";
  const TypeMeta type{"v1", "WatchEvent"};
  const std::string bytes = ReadFile(stem.string() + ".pb");
  const std::string text = ReadFile(stem.string() + ".json");
  auto object = DecodeEnvelope(bytes, type);
  ASSERT_TRUE(object.has_value()) << object.error().message();
  EXPECT_EQ(EncodeEnvelope(**object), bytes);
  EXPECT_EQ(EncodeJson(**object), CompactJson(ParseJson(text).documents.at(0)));
  auto from_json = DecodeJson(text, type);
  ASSERT_TRUE(from_json.has_value()) << from_json.error().message();
  EXPECT_EQ(PrintYaml(**from_json), ReadFile(stem.string() + ".yaml"));
  EXPECT_FALSE(DecodeEnvelope(bytes).has_value());
}

TEST(GoldenCasesTest, CoverEveryKindThatWeCarry) {
  for (const TypeMeta& type : KnownKinds()) {
    bool covered = false;
    for (const GoldenCase& golden : kCases) covered = covered || type.kind == golden.kind;
    EXPECT_TRUE(covered) << type.kind;
  }
}

}  // namespace
}  // namespace holdfast::agent::kube
