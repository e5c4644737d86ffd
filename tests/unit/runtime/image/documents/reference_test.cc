// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/reference.h"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

constexpr const char* kHex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(ReferenceTest, NormalisesLikeDocker) {
  const std::string digest = std::string("sha256:") + kHex;
  const std::pair<std::string, std::string> cases[] = {
      {"nginx", "docker.io/library/nginx:latest"},
      {"nginx:1.27", "docker.io/library/nginx:1.27"},
      {"library/nginx", "docker.io/library/nginx:latest"},
      {"bitnami/redis", "docker.io/bitnami/redis:latest"},
      {"docker.io/nginx", "docker.io/library/nginx:latest"},
      {"index.docker.io/nginx", "docker.io/library/nginx:latest"},
      {"localhost/app", "localhost/app:latest"},
      {"localhost:5000/app", "localhost:5000/app:latest"},
      {"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"},
      {"Host/app", "Host/app:latest"},  // upper case makes the first part a host
      {"[2001:db8::1]:5000/app", "[2001:db8::1]:5000/app:latest"},
      {"a.b/c/d/e:F_g.1-2", "a.b/c/d/e:F_g.1-2"},
      {"a__b/c-----d", "docker.io/a__b/c-----d:latest"},
      {"nginx@" + digest, "docker.io/library/nginx@" + digest},
      {"nginx:1.27@" + digest, "docker.io/library/nginx@" + digest},
  };
  for (const auto& [text, name] : cases) {
    const auto reference = ParseReference(text);
    ASSERT_TRUE(reference) << text << ": " << reference.error().message();
    EXPECT_EQ(reference->Name(), name);
  }
}

TEST(ReferenceTest, RefusesWithTheWordsThatUsersSearchFor) {
  const std::pair<std::string, std::string> cases[] = {
      {"Nginx", "invalid reference format: repository name (library/Nginx) must be lowercase"},
      {"docker.io/Nginx:1",
       "invalid reference format: repository name (library/Nginx) must be lowercase"},
      {"", "invalid reference format"},
      {"nginx:", "invalid reference format"},
      {":1", "invalid reference format"},
      {"nginx:-x", "invalid reference format"},
      {"nginx:" + std::string(129, 'a'), "invalid reference format"},
      {"a//b", "invalid reference format"},
      {"/a", "invalid reference format"},
      {"a/", "invalid reference format"},
      {"a..b/c d", "invalid reference format"},
      {"a_.b", "invalid reference format"},
      {"-a.b/c", "invalid reference format"},
      {"a.b:port/c", "invalid reference format"},
      {"../../etc/passwd", "invalid reference format"},
      {"nginx@sha256:abcd", "invalid reference format"},
      {"nginx@" + std::string("sha512:") + kHex, "unsupported digest algorithm"},
      {"nginx@sha256:" + std::string(40, 'a'), "invalid checksum digest length"},
      {kHex, std::string("invalid repository name (") + kHex +
                 "), cannot specify 64-byte hexadecimal strings"},
      {"r/" + std::string(256, 'a'), "repository name must not be more than 255 characters"},
  };
  for (const auto& [text, why] : cases) {
    const auto reference = ParseReference(text);
    ASSERT_FALSE(reference) << text;
    EXPECT_EQ(reference.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(reference.error().message(), "couldn't parse image name \"" + text + "\": " + why);
  }
}

}  // namespace
}  // namespace holdfast::runtime
