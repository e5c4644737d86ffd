// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pod_logins.h"

#include <gtest/gtest.h>

#include "agent/images/node_logins.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

corev1::Pod PodWithSecrets(const std::vector<std::string>& names) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_namespace_("default");
  for (const std::string& name : names) pod.mutable_spec()->add_imagepullsecrets()->set_name(name);
  return pod;
}

TEST(PodLoginsTest, BothTypesOfSecretsCount) {
  fakes::FakePodInputs inputs;
  inputs.Put({ObjectKind::kSecret, "default", "new"},
             {{".dockerconfigjson", R"({"auths":{"a.example":{"username":"u","password":"p"}}})"}});
  inputs.Put({ObjectKind::kSecret, "default", "old"},
             {{".dockercfg", R"({"a.example":{"username":"v","password":"q"}})"}});
  const PodLogins logins = LoginsOfPod(PodWithSecrets({"new", "old", ""}), &inputs);
  EXPECT_EQ(logins.keyring.Find("a.example/x"),
            (std::vector<RegistryLogin>{{"u", "p"}, {"v", "q"}}));
  EXPECT_FALSE(MissingSecretsNote(logins));
}

TEST(PodLoginsTest, WhatCannotBeHadIsToldByName) {
  fakes::FakePodInputs inputs;
  inputs.PutAbsent({ObjectKind::kSecret, "default", "gone"});
  inputs.Put({ObjectKind::kSecret, "default", "opaque"}, {{"password", "hidden"}});
  inputs.Put({ObjectKind::kSecret, "default", "broken"}, {{".dockerconfigjson", "hidden"}});
  const auto note =
      MissingSecretsNote(LoginsOfPod(PodWithSecrets({"gone", "opaque", "broken"}), &inputs));
  ASSERT_TRUE(note);
  EXPECT_EQ(note->reason, "FailedToRetrieveImagePullSecret");
  EXPECT_EQ(note->message,
            "Unable to retrieve some image pull secrets (gone, opaque, broken); attempting to pull "
            "the image may not succeed.");
}

TEST(PodLoginsTest, APullWaitsForTheAnswerAboutEachSecret) {
  fakes::FakePodInputs inputs;
  const corev1::Pod pod = PodWithSecrets({"a"});
  EXPECT_TRUE(PullSecretsArePending(pod, inputs));
  inputs.PutAbsent({ObjectKind::kSecret, "default", "a"});
  EXPECT_FALSE(PullSecretsArePending(pod, inputs));
  EXPECT_FALSE(PullSecretsArePending(PodWithSecrets({}), inputs));
}

TEST(PodLoginsTest, WhatAPodsAccountOpensIsForNoOtherPod) {
  const RegistryLogin node{"n", "1"};
  const RegistryLogin account{"a", "2"};
  ProvidedLogins given;
  given.all.Add("a.example", node);
  given.all.Add("a.example", account);
  given.of_account = {account};
  PodLogins logins = LoginsOfPod(PodWithSecrets({}), nullptr);
  logins.Add(given);
  EXPECT_EQ(logins.keyring.Find("a.example/x").size(), 2u);
  EXPECT_TRUE(logins.CredentialsOf(node).node_pods);
  EXPECT_EQ(logins.CredentialsOf(account), PullCredentials()) << "nobody is let in";
  EXPECT_TRUE(logins.CredentialsOf(std::nullopt).node_pods) << "it did not ask";
}

TEST(NodeLoginsTest, PlacesAreAKubelets) {
  EXPECT_EQ(NodeLoginFiles("/var/lib/x", "/root"),
            (std::vector<std::string>{"/var/lib/x/config.json", "/root/.docker/config.json",
                                      "/.docker/config.json", "/var/lib/x/.dockercfg",
                                      "/root/.dockercfg", "/.dockercfg"}));
}

}  // namespace
}  // namespace holdfast::agent
