// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/oci_documents.h"

#include <gtest/gtest.h>

#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/json_text.h"

namespace holdfast::runtime {
namespace {

TEST(OciDocumentsTest, WhatIsWrittenIsReadBack) {
  ImageConfig config;
  config.entrypoint = {"/bin/sh", "-c"};
  config.cmd = {"echo \"x\"\n\t\\"};
  config.env = {"A=1", "B=\xc3\xbc"};
  config.user = "www-data:www-data";
  config.working_dir = "/srv";
  config.stop_signal = "SIGQUIT";
  config.exposed_ports = {"53/udp", "80/tcp"};
  config.volumes = {"/data"};
  config.labels = {{"k", "v"}};
  const Digest diff_id = DigestOf("layer");
  const auto read = ParseConfig(WriteConfig(config, diff_id), 1);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->config.entrypoint, config.entrypoint);
  EXPECT_EQ(read->config.cmd, config.cmd);
  EXPECT_EQ(read->config.env, config.env);
  EXPECT_EQ(read->config.user, config.user);
  EXPECT_EQ(read->config.working_dir, config.working_dir);
  EXPECT_EQ(read->config.stop_signal, config.stop_signal);
  EXPECT_EQ(read->config.exposed_ports, config.exposed_ports);
  EXPECT_EQ(read->config.volumes, config.volumes);
  EXPECT_EQ(read->config.labels, config.labels);
  EXPECT_EQ(read->diff_ids, std::vector<Digest>{diff_id});
  EXPECT_EQ(read->platform.os, "linux");

  const Descriptor layer{"application/vnd.oci.image.layer.v1.tar", diff_id, 5, {}, {}};
  const Descriptor document{std::string(kOciConfig), DigestOf("c"), 1, {}, {}};
  const auto manifest = ParseManifest(WriteManifest(document, {layer, layer}), kOciManifest, 2);
  ASSERT_TRUE(manifest) << manifest.error().message();
  EXPECT_EQ(manifest->layers.size(), 2u);
  EXPECT_EQ(manifest->config.digest, document.digest);
  EXPECT_EQ(ParseManifest(WriteManifest(document, {layer, layer}), kOciManifest, 1).error().code(),
            Code::kResourceExhausted);
}

TEST(OciDocumentsTest, AnImageOfTheYear9999IsFromTheFuture) {
  const auto read = ParseConfig(
      R"({"os":"linux","created":"9999-12-31T23:59:59Z","config":{},"rootfs":{"diff_ids":[]}})", 1);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_GT(read->created, WallTime{std::chrono::seconds(9'000'000'000)});
}

TEST(OciDocumentsTest, NullFieldsAreAbsentOnes) {
  const auto read = ParseConfig(
      "{\"os\":\"linux\",\"config\":{\"Entrypoint\":null,\"Cmd\":null,\"Labels\":null,\"Volumes\":"
      "null,"
      "\"User\":null},\"rootfs\":{\"diff_ids\":[]}}",
      10);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_TRUE(read->config.cmd.empty());
}

TEST(OciDocumentsTest, WrongTypesAreRefused) {
  for (const char* config :
       {"{\"Cmd\":\"sh\"}", "{\"Env\":[1]}", "{\"User\":0}", "{\"Labels\":[\"a\"]}",
        "{\"Volumes\":[\"/a\"]}", "{\"Entrypoint\":{}}"}) {
    EXPECT_FALSE(ParseConfig(StrCat("{\"config\":", config, ",\"rootfs\":{\"diff_ids\":[]}}"), 1))
        << config;
  }
  EXPECT_FALSE(ParseConfig("{}", 1)) << "without rootfs";
  EXPECT_FALSE(ParseConfig("[]", 1));
  EXPECT_FALSE(ParseConfig("{\"config\":\"sh\",\"rootfs\":{\"diff_ids\":[]}}", 1));
}

// Of a field that is there twice the first would count here, the last does for all that is written in Go: what a scanner
// finds harmless and what runs would be two images of one digest.
TEST(OciDocumentsTest, FieldsThatAreCalledTheSameAreRefused) {
  const std::string digest = "sha256:" + std::string(64, '0');
  const std::string layer =
      StrCat("{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"", digest,
             "\",\"size\":1");
  const std::string head = StrCat(
      "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/"
      "vnd.oci.image.config.v1+json\",\"digest\":\"",
      digest, "\",\"size\":1},\"layers\":[");
  const auto manifest = [&](const std::string& rest) { return ParseManifest(head + rest, "", 10); };
  EXPECT_TRUE(manifest(layer + "}]}"));
  EXPECT_FALSE(manifest(layer + "}],\"layers\":[]}"));
  EXPECT_FALSE(manifest(layer + "}],\"Layers\":[]}"));
  EXPECT_FALSE(manifest(layer + "}],\"layer\u017f\":[]}")) << "a long s";
  EXPECT_FALSE(manifest(layer + ",\"Size\":2}]}"));
  EXPECT_FALSE(ParseIndex("{\"schemaVersion\":2,\"manifests\":[],\"Manifests\":[]}", "", 10));
  for (const char* config :
       {"{\"User\":\"1\",\"User\":\"0\"}", "{\"User\":\"1\",\"user\":\"0\"}"}) {
    const std::string rest = ",\"rootfs\":{\"diff_ids\":[]}}";
    const auto read = ParseConfig(StrCat("{\"config\":", config, rest), 1);
    ASSERT_FALSE(read) << config;
    EXPECT_EQ(read.error().message().substr(0, 27), "image config: field config:");
  }
  EXPECT_FALSE(ParseDockerArchive("[{\"Config\":\"a\",\"config\":\"b\"}]", 1, 1));
  // Keys that are data are nobody's names.
  const auto read = ParseConfig(
      "{\"config\":{\"Labels\":{\"a\":\"1\",\"A\":\"2\"},\"Volumes\":{\"/d\":{},\"/D\":{}}},"
      "\"rootfs\":{\"diff_ids\":[]}}",
      1);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->config.volumes.size(), 2u);
}

TEST(OciDocumentsTest, FieldsAreReadInAnyCaseAsGoDoes) {
  const auto read = ParseConfig(
      "{\"OS\":\"linux\",\"Config\":{\"user\":\"7\",\"cmd\":[\"sh\"]},\"RootFS\":{\"DIFF_IDS\":[]}"
      "}",
      1);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->platform.os, "linux");
  EXPECT_EQ(read->config.user, "7");
}

TEST(OciDocumentsTest, DocumentsThatAreTwoThingsAreRefused) {
  EXPECT_FALSE(ParseIndex("{\"schemaVersion\":2,\"manifests\":[],\"layers\":[]}", "", 10));
  EXPECT_FALSE(ParseIndex(
      StrCat("{\"schemaVersion\":2,\"mediaType\":\"", kOciManifest, "\",\"manifests\":[]}"),
      kOciIndex, 10));
  const auto old = ParseManifest("{\"schemaVersion\":1,\"fsLayers\":[]}", "", 10);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code(), Code::kUnsupported);
}

TEST(OciDocumentsTest, LayerTypesAreKnownOrNothing) {
  for (const char* type : {"application/vnd.oci.image.layer.v1.tar+zstd",
                           "application/vnd.docker.image.rootfs.diff.tar.gzip",
                           "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                           "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"}) {
    EXPECT_TRUE(IsLayerType(type)) << type;
    const std::string_view text(type);
    EXPECT_EQ(IsForeignLayerType(type),
              text.find("foreign") != text.npos || text.find("nondistributable") != text.npos)
        << type;
  }
  for (const char* type :
       {"", "application/vnd.oci.image.layer.v1.tar+xz", "application/octet-stream",
        "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "a/b.foreign.c"}) {
    EXPECT_FALSE(IsLayerType(type)) << type;
    EXPECT_FALSE(IsForeignLayerType(type)) << type;
  }
}

TEST(JsonTextTest, EscapesAndRepairs) {
  EXPECT_EQ(JsonString("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(JsonString("\xc3\xbc\xf0\x9f\x90\xb3"), "\"\xc3\xbc\xf0\x9f\x90\xb3\"");
  EXPECT_EQ(JsonString("\xff\xc3"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(JsonString("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"")
      << "a surrogate";
  EXPECT_EQ(JsonArray({}), "[]");
  EXPECT_EQ(JsonSet({"80/tcp"}), "{\"80/tcp\":{}}");
  EXPECT_EQ(JsonObject({{"a", "1"}, {"b", "2"}}), "{\"a\":\"1\",\"b\":\"2\"}");
}

}  // namespace
}  // namespace holdfast::runtime
