// SPDX-License-Identifier: Apache-2.0
#include "k8s/core/v1/config.pb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/validation/validate.h"

namespace holdfast::agent::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> ConfigLines(const FieldErrors& errors) {
  std::vector<std::string> lines;
  for (const FieldError& error : errors) lines.push_back(error.ToString());
  return lines;
}

corev1::ConfigMap Map(const std::string& name = "conf") {
  corev1::ConfigMap map;
  map.mutable_metadata()->set_name(name);
  map.mutable_metadata()->set_namespace_("default");
  return map;
}

corev1::Secret Secret(const std::string& type) {
  corev1::Secret secret;
  secret.mutable_metadata()->set_name("key");
  secret.mutable_metadata()->set_namespace_("default");
  secret.set_type(type);
  return secret;
}

std::vector<std::string> FaultsWith(const std::string& type, const std::string& key,
                                    const std::string& value) {
  corev1::Secret secret = Secret(type);
  (*secret.mutable_data())[key] = value;
  return ConfigLines(ValidateSecret(secret));
}

constexpr char kRule[] =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " "
    "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

TEST(ValidateConfigMapTest, KeysAreFileNamesThatStayInTheirDirectory) {
  corev1::ConfigMap map = Map();
  for (const char* key : {"a", ".hidden", "A_b-c.d", "0"}) (*map.mutable_data())[key] = "x";
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)), IsEmpty());
  for (const char* key : {"", ".", "..", "..data", "../x", "a/b", "a b", "\xff"}) {
    for (const bool binary : {false, true}) {
      map = Map();
      (*(binary ? map.mutable_binarydata() : map.mutable_data()))[key] = "x";
      EXPECT_FALSE(ValidateConfigMap(map).empty()) << key;
    }
  }
  map = Map();
  (*map.mutable_data())["../x"] = "x";
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)),
              ElementsAre(HasSubstr("data[../x]: Invalid value: \"../x\": a valid config key must"),
                          "data[../x]: Invalid value: \"../x\": must not start with '..'"));
  map = Map();
  (*map.mutable_binarydata())[std::string(254, 'k')] = "x";
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)),
              ElementsAre(HasSubstr("must be no more than 253")));
}

TEST(ValidateConfigMapTest, AKeyIsInOneOfTheTwo) {
  corev1::ConfigMap map = Map("NOT-A-NAME");
  (*map.mutable_data())["a"] = "x";
  (*map.mutable_binarydata())["a"] = "x";
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)),
              ElementsAre(HasSubstr("metadata.name: Invalid value: \"NOT-A-NAME\""),
                          "data[a]: Invalid value: \"a\": duplicate of key present in binaryData"));
}

TEST(ValidateConfigMapTest, AMebibyteInAll) {
  corev1::ConfigMap map = Map();
  (*map.mutable_data())["a"] = std::string(1 << 19, 'x');
  (*map.mutable_binarydata())["b"] = std::string(1 << 19, 'x');
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)), IsEmpty());
  (*map.mutable_data())["c"] = "x";
  EXPECT_THAT(ConfigLines(ValidateConfigMap(map)),
              ElementsAre("[]: Too long: may not be more than 1048576 bytes"));
}

TEST(ValidateSecretTest, EachTypeHoldsWhatItIsFor) {
  EXPECT_THAT(FaultsWith("Opaque", "any", ""), IsEmpty());
  EXPECT_THAT(FaultsWith("example.com/own", "any", ""), IsEmpty());
  EXPECT_THAT(FaultsWith("kubernetes.io/tls", "tls.crt", ""),
              ElementsAre("data[tls.key]: Required value"));
  EXPECT_THAT(FaultsWith("kubernetes.io/basic-auth", "password", "x"), IsEmpty());
  EXPECT_THAT(FaultsWith("kubernetes.io/basic-auth", "other", "x"),
              ElementsAre("data[username]: Required value", "data[password]: Required value"));
  EXPECT_THAT(FaultsWith("kubernetes.io/ssh-auth", "ssh-privatekey", ""),
              ElementsAre("data[ssh-privatekey]: Required value"));
  EXPECT_THAT(FaultsWith("kubernetes.io/service-account-token", "token", "x"),
              ElementsAre("metadata.annotations[kubernetes.io/service-account.name]: "
                          "Required value"));
  EXPECT_THAT(FaultsWith("kubernetes.io/dockercfg", ".dockercfg", "{}"), IsEmpty());
  EXPECT_THAT(FaultsWith("kubernetes.io/dockercfg", ".dockerconfigjson", "{}"),
              ElementsAre("data[.dockercfg]: Required value"));
  EXPECT_THAT(FaultsWith("kubernetes.io/dockerconfigjson", ".dockerconfigjson",
                         "{\"auths\": {\"r\": {}, \"r\": {}}}"),
              IsEmpty())
      << "a doubled key is read";
}

TEST(ValidateSecretTest, NoFaultShowsAValue) {
  for (const char* text : {"hunter2", "{\"auths\": hunter2", "[\"hunter2\"]", "{} hunter2"}) {
    EXPECT_THAT(
        FaultsWith("kubernetes.io/dockerconfigjson", ".dockerconfigjson", text),
        ElementsAre("data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": "
                    "not a JSON object"))
        << text;
  }
  EXPECT_THAT(FaultsWith("Opaque", "a", std::string((1 << 20) + 1, 'x')),
              ElementsAre("data: Too long: may not be more than 1048576 bytes"));
}

}  // namespace
}  // namespace holdfast::agent::kube
