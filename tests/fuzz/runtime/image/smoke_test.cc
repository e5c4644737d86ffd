// SPDX-License-Identifier: Apache-2.0
// The fuzz targets without the engine: good inputs, then damaged ones from a fixed sequence.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/image/wire/wire.h"
#include "tests/fuzz/runtime/image/targets.h"
#include "tests/support/fuzz/replay.h"
#include "tests/support/tar_builder.h"

namespace holdfast::runtime::fuzz {
namespace {

using holdfast::fuzz::Replay;
using test::TarPacking;

std::vector<test::TarMember> Members() {
  test::TarMember extended = test::File(std::string(300, 'n') + "/\xc3\xbc", "data");
  extended.xattrs = {{"security.capability", "x"}, {"user.a", "b"}};
  extended.uid = 5'000'000;
  return {test::Dir("d"), extended, test::Link("l", "../../etc/passwd"), test::Hardlink("h", "d/f"),
          test::File("d/.wh.x", "")};
}

TEST(FuzzSmokeTest, Tar) {
  Replay(FuzzTar, {test::BuildTar(Members()), test::BuildTar(Members(), TarPacking::kPlain, true)});
}

TEST(FuzzSmokeTest, Inflate) {
  const std::string gzip = test::BuildTar(Members(), TarPacking::kGzip);
  Replay(FuzzInflate,
         {gzip, gzip.substr(10), gzip + gzip, test::BuildTar(Members(), TarPacking::kZstd)});
}

TEST(FuzzSmokeTest, Documents) {
  const std::string hex(64, 'a');
  const std::string descriptor =
      "{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"sha256:" + hex +
      "\",\"size\":7,\"annotations\":{\"a\":\"b\"}}";
  Replay(FuzzDocuments,
         {"{\"schemaVersion\":2,\"manifests\":[" + descriptor + "]}",
          "{\"schemaVersion\":2,\"config\":" + descriptor + ",\"layers\":[]}",
          "{\"os\":\"linux\",\"created\":\"2024-01-01T00:00:00Z\",\"config\":{\"Env\":[\"A="
          "\\u00fc\\n\"],\"Cmd\":[],"
          "\"Labels\":{\"k\":\"v\"},\"Volumes\":{\"/v\":{}}},\"rootfs\":{\"diff_ids\":[\"sha256:" +
              hex + "\"]}}",
          "[{\"Config\":\"a\",\"RepoTags\":[\"b:c\"],\"Layers\":[\"d\"]}]",
          "registry.example:5000/a__b/c-d:tag@sha256:" + hex});
}

TEST(FuzzSmokeTest, Registry) {
  fetch::Head head;
  head.challenges = {{"bearer", "https://a", "b", "c", "d"}};
  fetch::Request request;
  request.url = "https://a/";
  Replay(
      FuzzRegistry,
      {R"(Bearer realm="https://a/t?x=1",service="s",scope="repository:a/b:pull", Basic realm=x)",
       "https://registry.example:5000/v2/a?b=c", R"({"token":"abc","expires_in":1})",
       R"({"mediaType":"application/vnd.oci.image.manifest.v1+json"})",
       fetch::Encode(fetch::FieldsOf(head)), fetch::EncodeRequest(request)});
}

TEST(FuzzSmokeTest, Hosts) {
  Replay(FuzzHosts, {R"(server = "https://a"
ca = ["b", "c"]
[host."http://m:5000/x"]
  capabilities = ["pull", "resolve"]
  client = [["a", "b"]]
  skip_verify = true
  override_path = true
  dial_timeout = "1m2.5s"
  header = { A = "b", C = ["d", "e"] }
)"});
}

TEST(FuzzSmokeTest, ShortNames) {
  std::string file = R"(unqualified-search-registries = ["quay.io", "registry.example:5000"]
short-name-mode = "permissive"
[aliases]
"app" = "quay.io/org/app"
"tools/app" = ""
)";
  Replay(FuzzShortNames,
         {file + '\0' + "other:2", file + '\0' + "app@sha256:" + std::string(64, 'a')});
}

}  // namespace
}  // namespace holdfast::runtime::fuzz
