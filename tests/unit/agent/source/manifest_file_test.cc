// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_file.h"

#include <sys/stat.h>

#include "agent/kube/pod_identity.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"
#include "tests/unit/agent/source/source_fixture.h"

namespace holdfast::agent {
namespace {

const FileRules kAlone{"/manifests", "Node-1", true};
const FileRules kUnderApiServer{"/manifests", "node-1", false};

TEST(ManifestNameTest, OnlyFinishedManifests) {
  for (const char* name : {"a.yaml", "a.yml", "a.json", "a.b.yaml", "-.yaml"}) {
    EXPECT_TRUE(IsManifestName(name)) << name;
  }
  for (const char* name : {"", ".a.yaml", ".a.yaml.swp", "a.yaml~", "a.yaml.bak", "#a.yaml#",
                           "#a.yaml", "a.yaml.tmp", "a.swp", "README", "a.txt", "a.YAML", "4913"}) {
    EXPECT_FALSE(IsManifestName(name)) << name;
  }
}

TEST(ReadFileObjectsTest, AManifestBecomesAStaticPodOfThisNode) {
  const FileObjects read = ReadFileObjects("web.yaml", PodYaml("web"), kAlone);
  ASSERT_TRUE(read.valid) << read.message;
  ASSERT_EQ(read.pods.size(), 1u);
  const corev1::Pod& pod = *read.pods[0];
  EXPECT_EQ(pod.metadata().name(), "web-node-1");
  EXPECT_EQ(pod.metadata().namespace_(), "default");
  EXPECT_EQ(pod.spec().nodename(), "Node-1");
  EXPECT_EQ(pod.spec().restartpolicy(), "Always") << "defaults are filled in";
  EXPECT_EQ(pod.metadata().uid().size(), 32u);
  const auto& annotations = pod.metadata().annotations();
  EXPECT_EQ(annotations.at("kubernetes.io/config.source"), "file");
  EXPECT_EQ(annotations.at("kubernetes.io/config.hash"), pod.metadata().uid());
  ASSERT_EQ(pod.spec().tolerations_size(), 1);
  EXPECT_EQ(pod.spec().tolerations(0).operator_(), "Exists");
  EXPECT_EQ(pod.spec().tolerations(0).effect(), "NoExecute");
}

// What a pod of this node is refused for beyond what an API server asks.
std::string FaultsOf(const std::string& name, const std::string& spec,
                     const std::string& meta = "") {
  const std::string text =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + meta + "}\nspec: {" + spec + "}\n";
  return ReadFileObjects("a.yaml", text, kAlone).message;
}
constexpr char kApp[] = "containers: [{name: app, image: i}]";

TEST(ReadFileObjectsTest, TheNameMustHaveRoomForTheNodes) {
  EXPECT_EQ(FaultsOf(std::string(246, 'a'), kApp), "");
  const std::string faults = FaultsOf(std::string(247, 'a'), kApp);
  EXPECT_NE(faults.find("a.yaml:3:18: metadata.name: Invalid value: "), std::string::npos)
      << faults;
  EXPECT_NE(faults.find("with the suffix \"-Node-1\" it must be no more than 253 bytes"),
            std::string::npos)
      << faults;
}

TEST(ReadFileObjectsTest, APodWithSchedulingGatesIsNotRun) {
  const std::string faults =
      FaultsOf("web", std::string(kApp) + ", schedulingGates: [{name: a/b}]");
  EXPECT_NE(faults.find("spec.schedulingGates: Forbidden: a pod from a manifest file is on this "
                        "node already, whatever its gates"),
            std::string::npos)
      << faults;
}

TEST(ReadFileObjectsTest, AContainerHasAsManyMountsAsALaunchCanCarry) {
  const auto with = [](int count) {
    std::string mounts;
    for (int i = 0; i < count; ++i) {
      mounts += (i == 0 ? "" : ", ") + ("{name: v, mountPath: /m" + std::to_string(i)) + "}";
    }
    return FaultsOf("web",
                    "volumes: [{name: v, emptyDir: {}}], containers: [{name: app, image: i, "
                    "volumeMounts: [" +
                        mounts + "]}]");
  };
  EXPECT_EQ(with(200), "");
  const std::string faults = with(201);
  EXPECT_NE(
      faults.find("spec.containers[0].volumeMounts: Too many: 201: must have at most 200 items"),
      std::string::npos)
      << faults;
}

TEST(ReadFileObjectsTest, APodThatIsSaidToBeDeletedIsNot) {
  const std::string meta =
      ", deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 3";
  const FileObjects read = ReadFileObjects(
      "a.yaml",
      "apiVersion: v1\nkind: Pod\nmetadata: {name: web" + meta + "}\nspec: {" + kApp + "}\n",
      kAlone);
  ASSERT_TRUE(read.valid) << read.message;
  EXPECT_FALSE(read.pods.at(0)->metadata().has_deletiontimestamp());
  EXPECT_FALSE(read.pods.at(0)->metadata().has_deletiongraceperiodseconds());
}

TEST(ReadFileObjectsTest, TheUidFollowsContentNodeAndPlace) {
  const auto uid = [](const std::string& file, const std::string& text, const FileRules& rules) {
    return ReadFileObjects(file, text, rules).pods.at(0)->metadata().uid();
  };
  const std::string first = uid("web.yaml", PodYaml("web"), kAlone);
  EXPECT_EQ(uid("web.yaml", PodYaml("web"), kAlone), first);
  EXPECT_EQ(uid("web.yaml", "# a comment\n" + PodYaml("web"), kAlone), first);
  EXPECT_NE(uid("web.yaml", PodYaml("web", "nginx:2"), kAlone), first);
  EXPECT_NE(uid("other.yaml", PodYaml("web"), kAlone), first);
  FileRules elsewhere = kAlone;
  elsewhere.node_name = "node-2";
  EXPECT_NE(uid("web.yaml", PodYaml("web"), elsewhere), first);
}

TEST(ReadFileObjectsTest, JsonAndSeveralDocuments) {
  const FileObjects json = ReadFileObjects("web.json",
                                           "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{"
                                           "\"name\":\"web\"},\"spec\":{\"containers\":"
                                           "[{\"name\":\"main\",\"image\":\"nginx:1\"}]}}",
                                           kAlone);
  ASSERT_TRUE(json.valid) << json.message;
  EXPECT_EQ(json.pods.size(), 1u);
  const std::string two = PodYaml("a") + "---\n" + PodYaml("b");
  EXPECT_EQ(ReadFileObjects("two.yaml", two, kAlone).pods.size(), 2u);
  const FileObjects refused = ReadFileObjects("two.yaml", two, kUnderApiServer);
  EXPECT_FALSE(refused.valid);
  EXPECT_NE(refused.message.find("one Pod"), std::string::npos) << refused.message;
}

TEST(ReadFileObjectsTest, FaultsNameFileLineAndColumn) {
  std::string text = PodYaml("web");
  text.replace(text.find("image:"), 6, "imagee:");
  const FileObjects read = ReadFileObjects("web.yaml", text, kAlone);
  EXPECT_FALSE(read.valid);
  EXPECT_TRUE(read.message.starts_with("web.yaml:8:5: spec.containers[0].imagee: unknown field"))
      << read.message;
  const FileObjects invalid = ReadFileObjects("web.yaml", PodYaml("UPPER"), kAlone);
  EXPECT_FALSE(invalid.valid);
  EXPECT_TRUE(invalid.message.starts_with("web.yaml:4:9: metadata.name: Invalid value:"))
      << invalid.message;
  for (const std::string nothing : {"", "\n", "# only a comment\n", "---\n---\n"}) {
    EXPECT_FALSE(ReadFileObjects("web.yaml", nothing, kAlone).valid);
  }
}

TEST(ReadFileObjectsTest, OtherKindsAreNamedAndDoNotStopThePods) {
  const std::string text =
      PodYaml("web") + "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: c}\n";
  const FileObjects read = ReadFileObjects("web.yaml", text, kAlone);
  EXPECT_TRUE(read.valid);
  EXPECT_EQ(read.pods.size(), 1u);
  EXPECT_NE(read.message.find("ServiceAccount is not run from a manifest file"), std::string::npos)
      << read.message;
}

TEST(ReadFileObjectsTest, ServicesAndSlicesStandBesidePodsWhereThereIsNoApiServer) {
  const std::string text = PodYaml("web") +
                           "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
                           "spec: {selector: {app: web}, ports: [{port: 80}]}\n"
                           "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
                           "metadata: {name: x, namespace: other}\naddressType: IPv4\n"
                           "endpoints: [{addresses: [192.0.2.1]}]\n";
  const FileObjects read = ReadFileObjects("web.yaml", text, kAlone);
  ASSERT_TRUE(read.valid) << read.message;
  EXPECT_EQ(read.pods.size(), 1u);
  ASSERT_EQ(read.services.size(), 1u);
  EXPECT_EQ(read.services[0]->metadata().namespace_(), "default");
  EXPECT_EQ(read.services[0]->spec().type(), "ClusterIP") << "defaults are filled in";
  ASSERT_EQ(read.slices.size(), 1u);
  EXPECT_EQ(read.slices[0]->metadata().namespace_(), "other");
  EXPECT_FALSE(ReadFileObjects("web.yaml", text, kUnderApiServer).valid);
  const FileObjects bad = ReadFileObjects(
      "s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: w}\nspec: {ports: []}\n", kAlone);
  EXPECT_FALSE(bad.valid);
  EXPECT_TRUE(bad.services.empty());
}

TEST(ReadFileObjectsTest, ConfigMapsAndSecretsStandBesidePods) {
  const std::string text =
      PodYaml("web") +
      "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
      "data: {a: \"1\"}\nbinaryData: {b: AP8=}\nimmutable: true\n"
      "---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n"
      "  metadata: {name: key, namespace: other}\n  data: {a: aHVudGVyMg==}\n"
      "  stringData: {b: plain}\n";
  const FileObjects read = ReadFileObjects("web.yaml", text, kAlone);
  ASSERT_TRUE(read.valid) << read.message;
  EXPECT_EQ(read.message, "");
  ASSERT_EQ(read.configs.size(), 2u);
  EXPECT_EQ(read.configs[0]->ref, (ObjectRef{ObjectKind::kConfigMap, "default", "conf"}));
  EXPECT_EQ(read.configs[0]->data->values.at("b"), std::string("\0\xff", 2));
  EXPECT_TRUE(read.configs[0]->data->immutable);
  EXPECT_EQ(read.configs[1]->ref, (ObjectRef{ObjectKind::kSecret, "other", "key"}));
  EXPECT_EQ(read.configs[1]->type, "Opaque") << "defaults are filled in";
  EXPECT_EQ(read.configs[1]->data->values,
            (std::map<std::string, std::string>{{"a", "hunter2"}, {"b", "plain"}}));
}

TEST(ReadFileObjectsTest, UnderAnApiServerConfigMapsAndSecretsAreTheServers) {
  for (const char* kind : {"ConfigMap", "Secret"}) {
    const FileObjects read =
        ReadFileObjects("c.yaml", StrCat("apiVersion: v1\nkind: ", kind, "\nmetadata: {name: a}\n"),
                        kUnderApiServer);
    EXPECT_FALSE(read.valid);
    EXPECT_TRUE(read.configs.empty());
    EXPECT_EQ(read.message, StrCat("c.yaml:2:7: kind: ", kind, " is not run from a manifest file"));
  }
}

// Whatever is wrong with it, and wherever that is told.
TEST(ReadFileObjectsTest, NoFaultOfASecretShowsAValue) {
  const std::string head = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n";
  const char* const bad[] = {
      "data: {a: hunter2!}\n",
      "data: hunter2\n",
      "data: {a: [hunter2]}\n",
      "stringData: {a: {hunter2: x}, a: hunter2}\n",
      "stringData: {a: !own hunter2}\n",
      "stringData: {a: \"hunter2}\n",
      "stringData:\n  a: hunter2\n b: hunter2\n",
      "stringData: {../x: hunter2}\n",
      "immutable: hunter2\n",
      "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2}\n",
      "type: kubernetes.io/tls\nstringData: {tls.crt: hunter2}\n",
  };
  for (const char* text : bad) {
    const FileObjects read = ReadFileObjects("s.yaml", head + text, kAlone);
    EXPECT_FALSE(read.valid) << text;
    EXPECT_NE(read.message, "") << text;
    EXPECT_EQ(read.message.find("hunter2"), std::string::npos) << read.message;
  }
}

TEST(ReadFileObjectsTest, FaultsOfAConfigMapHaveTheirPlace) {
  EXPECT_EQ(ReadFileObjects("c.yaml",
                            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n"
                            "  ..data: x\n",
                            kAlone)
                .message,
            "c.yaml:6:11: data[..data]: Invalid value: \"..data\": must not start with '..'");
  EXPECT_EQ(
      ReadFileObjects("c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndate: {}\n",
                      kAlone)
          .message,
      "c.yaml:4:1: date: unknown field (did you mean \"data\"?)");
}

TEST(ReadFileObjectsTest, AMebibyteIsTakenInEitherForm) {
  const std::string big(1 << 20, 'A');
  for (const char* kind : {"ConfigMap", "Secret"}) {
    const bool secret = std::string(kind) == "Secret";
    const auto text = [&](const std::string& value) {
      return StrCat("{\"apiVersion\": \"v1\", \"kind\": \"", kind,
                    "\", \"metadata\": {\"name\": \"a\"}, \"", secret ? "stringData" : "data",
                    "\": {\"a\": \"", value, "\"}}");
    };
    const FileObjects most = ReadFileObjects("c.json", text(big), kAlone);
    EXPECT_TRUE(most.valid) << most.message.substr(0, 200);
    const FileObjects more = ReadFileObjects("c.json", text(big + "A"), kAlone);
    EXPECT_FALSE(more.valid);
    EXPECT_NE(more.message.find("Too long: may not be more than 1048576 bytes"), std::string::npos)
        << more.message.substr(0, 200);
  }
  const FileObjects base64 =
      ReadFileObjects("s.yaml",
                      "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: " +
                          std::string(4 * ((1 << 20) / 3), 'A') + "}\n",
                      kAlone);
  EXPECT_TRUE(base64.valid) << base64.message.substr(0, 200);
}

TEST_F(SourceTest, OnlyRegularFilesAreLookedAt) {
  const auto dir = sys::OpenDir(dir_);
  Write("a.yaml", "x");
  std::filesystem::create_symlink("a.yaml", dir_ + "/link.yaml");
  std::filesystem::create_symlink("loop.yaml", dir_ + "/loop.yaml");
  std::filesystem::create_directory(dir_ + "/dir.yaml");
  ASSERT_EQ(::mkfifo((dir_ + "/fifo.yaml").c_str(), 0600), 0);
  EXPECT_TRUE(StatManifest(dir->get(), "a.yaml")->has_value());
  EXPECT_TRUE(StatManifest(dir->get(), "link.yaml")->has_value());
  for (const char* name : {"loop.yaml", "dir.yaml", "fifo.yaml", "absent.yaml"}) {
    EXPECT_FALSE(StatManifest(dir->get(), name)->has_value()) << name;
  }
  EXPECT_FALSE(ReadManifestFile(dir->get(), "fifo.yaml")) << "and does not block";
}

TEST_F(SourceTest, AGiantFileIsRefusedByItsSize) {
  const auto dir = sys::OpenDir(dir_);
  Write("big.yaml", "");
  std::filesystem::resize_file(dir_ + "/big.yaml", 1ull << 30);
  const auto read = ReadManifestFile(dir->get(), "big.yaml");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(read.error().message(), "big.yaml: larger than the limit of 10 MiB");
}

}  // namespace
}  // namespace holdfast::agent
