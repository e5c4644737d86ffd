// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/artifact.h"

#include <gtest/gtest.h>

#include <string>

#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

using Kind = ArtifactPart::Kind;
using Parts = std::vector<ArtifactPart>;

constexpr char kTitle[] = "org.opencontainers.image.title";
constexpr char kUnpack[] = "io.deis.oras.content.unpack";
constexpr char kTarGzip[] = "application/vnd.oci.image.layer.v1.tar+gzip";
constexpr char kEmptyType[] = "application/vnd.oci.empty.v1+json";

Descriptor Blob(const std::string& type, std::map<std::string, std::string> annotations = {},
                const std::string& content = "x") {
  return {type, DigestOf(content), content.size(), {}, std::move(annotations)};
}

Descriptor Titled(const std::string& title) { return Blob("text/plain", {{kTitle, title}}); }

Result<Parts> PartsOf(std::vector<Descriptor> blobs) {
  ImageManifest manifest;
  manifest.layers = std::move(blobs);
  return PartsOfArtifact(manifest);
}

std::string RefusalOf(std::vector<Descriptor> blobs) {
  const auto parts = PartsOf(std::move(blobs));
  return parts ? "accepted" : parts.error().message();
}

std::string Manifest(const std::string& config, const std::string& more,
                     const std::string& layer = "text/plain") {
  const std::string digest = DigestOf("x").value;
  return StrCat("{\"schemaVersion\":2,", more, "\"config\":{\"mediaType\":\"", config,
                "\",\"digest\":\"", digest, "\",\"size\":1},\"layers\":[{\"mediaType\":\"", layer,
                "\",\"digest\":\"", digest, "\",\"size\":1}]}");
}

TEST(ArtifactTest, ATitleIsAFilesPlaceWhateverItsTypeSays) {
  const auto parts = PartsOf({Titled("model.bin"), Titled("a/b/./c//d.txt"),
                              Blob(kTarGzip, {{kTitle, "notes.md"}}), Titled("..data/.wh.x"),
                              Titled("d\xc3\xa4s.txt")});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(*parts, (Parts{{Kind::kFile, "model.bin"},
                           {Kind::kFile, "a/b/c/d.txt"},
                           {Kind::kFile, "notes.md"},
                           {Kind::kFile, "..data/.wh.x"},
                           {Kind::kFile, "d\xc3\xa4s.txt"}}));
}

TEST(ArtifactTest, WhatIsUnpackedAndWhatHasNoTitle) {
  const auto parts =
      PartsOf({Blob(kTarGzip), Blob(kTarGzip, {{kTitle, "data"}, {kUnpack, "true"}}),
               Blob(kTarGzip, {{kTitle, "data.tgz"}, {kUnpack, "false"}}),
               Blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
               Blob(kEmptyType, {}, "{}"), Blob("a/b", {{"org.cncf.model.filepath", "m/1"}}, "m"),
               Blob("a/b", {{"org.cnai.model.filepath", "m/2"}, {kTitle, ""}}, "n")});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(*parts, (Parts{{Kind::kTree, ""},
                           {Kind::kTree, ""},
                           {Kind::kFile, "data.tgz"},
                           {Kind::kFile, "sha256-" + HexOf(DigestOf("x"))},
                           {Kind::kNothing, ""},
                           {Kind::kFile, "m/1"},
                           {Kind::kFile, "m/2"}}));
}

TEST(ArtifactTest, TitlesThatAreNoPlaceBelowTheVolumeAreRefused) {
  const std::string long_part(256, 'a');
  std::string deep, longest;
  for (int i = 0; i < 33; ++i) deep += "a/";
  for (int i = 0; i < 9; ++i) longest += std::string(128, 'a') + "/";
  const std::vector<std::pair<std::string, std::string>> titles = {
      {"/etc/passwd", "must be relative"},
      {"../x", "must not hold \"..\""},
      {"a/../../x", "must not hold \"..\""},
      {"a/..", "must not hold \"..\""},
      {".", "names no file"},
      {"./", "names no file"},
      {"a\nb", "control character"},
      {std::string("a\0b", 3), "control character"},
      {"a\x7f", "control character"},
      {"\xc2\x9b", "control character"},
      {long_part, "longer than 255 bytes"},
      {deep + "f", "deeper than 32"},
      {longest, "longer than 1024 bytes"}};
  for (const auto& [title, why] : titles) {
    const std::string said = RefusalOf({Titled(title)});
    EXPECT_NE(said.find(why), said.npos) << title << ": " << said;
    EXPECT_EQ(said.find('\n'), said.npos) << "shown to people";
  }
}

TEST(ArtifactTest, TwoFilesAreNotInOnePlace) {
  EXPECT_NE(RefusalOf({Titled("a"), Titled("./a")}).find("two blobs have it"), std::string::npos);
  EXPECT_NE(RefusalOf({Titled("a/b"), Titled("a")}).find("another blob lies below it"),
            std::string::npos);
  EXPECT_NE(RefusalOf({Titled("a"), Titled("a/b/c")}).find("another blob lies below it"),
            std::string::npos);
  EXPECT_EQ(RefusalOf({Titled("a/b"), Titled("a/c"), Titled("ab")}), "accepted");
}

TEST(ArtifactTest, AManifestIsAnArtifactsByItsConfig) {
  const auto typed =
      ParseManifest(Manifest(kEmptyType,
                             "\"artifactType\":\"application/vnd.x\",\"annotations\":{\"org."
                             "opencontainers.image.created\":\"2026-01-02T03:04:05Z\"},"),
                    kOciManifest, 1);
  ASSERT_TRUE(typed) << typed.error().message();
  EXPECT_EQ(typed->artifact_type, "application/vnd.x");
  const ConfigDocument config = ConfigOfArtifact(*typed);
  EXPECT_EQ(config.artifact_type, "application/vnd.x");
  EXPECT_EQ(config.created.since_epoch, std::chrono::seconds(1767323045));

  const auto by_config =
      ParseManifest(Manifest("application/vnd.cncf.helm.config.v1+json", ""), "", 1);
  ASSERT_TRUE(by_config) << by_config.error().message();
  EXPECT_EQ(by_config->artifact_type, "application/vnd.cncf.helm.config.v1+json");

  // An image stays one, and of an image every layer is known.
  const std::string type = "\"artifactType\":\"application/vnd.x\",";
  const auto image = ParseManifest(Manifest(std::string(kOciConfig), type, kTarGzip), "", 1);
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->artifact_type, "");
  EXPECT_FALSE(ParseManifest(Manifest(std::string(kOciConfig), type), "", 1));
}

TEST(ArtifactTest, WhatIsNoArtifactIsRefused) {
  const char* docker = "application/vnd.docker.distribution.manifest.v2+json";
  const char* plugin = "application/vnd.docker.plugin.v1+json";
  EXPECT_FALSE(ParseManifest(Manifest(plugin, ""), docker, 1)) << "a plugin of Docker's";
  EXPECT_FALSE(ParseManifest(Manifest(plugin, StrCat("\"mediaType\":\"", docker, "\",")), "", 1));
  for (const char* type : {"a b", "a\\u001b[2J", "\\u00e4/x"}) {
    EXPECT_FALSE(ParseManifest(Manifest(kEmptyType, StrCat("\"artifactType\":\"", type, "\",")),
                               kOciManifest, 1))
        << type;
  }
  EXPECT_FALSE(ParseManifest(
      Manifest(kEmptyType, StrCat("\"artifactType\":\"", std::string(256, 'a'), "\",")),
      kOciManifest, 1));
}

}  // namespace
}  // namespace holdfast::runtime
