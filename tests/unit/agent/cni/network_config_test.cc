// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/network_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "holdfast/base/strings.h"
#include "tests/support/scripted_plugins.h"

namespace holdfast::agent::cni {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kBridge[] =
    R"({"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","mtu":1400}]})";

std::string ListError(const std::string& text) {
  const auto network = ParseNetworkList(text);
  return network ? "" : network.error().message();
}

std::string Versions(const std::string& fields) {
  const auto network =
      ParseNetworkList(StrCat(R"({"name":"pods","plugins":[{"type":"a"}],)", fields, "}"));
  if (!network) return network.error().message();
  std::string text;
  for (const std::string& version : network->versions) text += version + " ";
  return text;
}

class LoadNetworkTest : public testing::Test {
 protected:
  std::string Loaded() {
    const auto loaded = LoadNetwork(files_.config());
    if (!loaded) return loaded.error().message();
    return StrCat(std::filesystem::path(loaded->file).filename().string(), " ",
                  loaded->network.name);
  }
  static std::string Named(const std::string& name) {
    return StrCat(R"({"cniVersion":"1.0.0","name":")", name, R"(","plugins":[{"type":"a"}]})");
  }

  test_support::ScriptedPlugins files_;
};

TEST_F(LoadNetworkTest, TheFirstByNameOfTheThreeKindsIsTaken) {
  EXPECT_EQ(Loaded(), "no network config found in " + files_.config());
  files_.Configure("00-readme.txt", "nothing");
  files_.Configure("00-former.conflist.bak", Named("former"));
  std::filesystem::create_directory(files_.config() + "/01-folder.conf");
  files_.Configure("30-c.conflist", Named("c"));
  EXPECT_EQ(Loaded(), "30-c.conflist c");
  files_.Configure("20-b.json", R"({"cniVersion":"1.0.0","name":"b","type":"x"})");
  EXPECT_EQ(Loaded(), "20-b.json b");
  files_.Configure("10-a.conf", R"({"cniVersion":"1.0.0","name":"a","type":"x"})");
  EXPECT_EQ(Loaded(), "10-a.conf a");
}

TEST_F(LoadNetworkTest, ABadFirstOneIsToldAndNoOtherIsTakenInItsPlace) {
  files_.Configure("10-a.conflist", R"({"cniVersion":"1.0.0","name":"a","plugins":[]})");
  files_.Configure("20-b.conflist", Named("b"));
  EXPECT_EQ(Loaded(), "network config " + files_.config() + "/10-a.conflist: no plugins");
}

TEST_F(LoadNetworkTest, ADirectoryThatIsMissingHasNoNetwork) {
  const auto loaded = LoadNetwork("/no/such/directory");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), Code::kNotFound);
  EXPECT_EQ(loaded.error().message(), "no network config found in /no/such/directory");
}

TEST_F(LoadNetworkTest, PluginsOfTheNetworksFolderComeAfterItsOwn) {
  files_.Configure("10-pods.conflist", kBridge);
  std::filesystem::create_directory(files_.config() + "/pods");
  files_.Configure("pods/20-b.conf", R"({"type":"bandwidth"})");
  files_.Configure("pods/10-a.conf", R"({"type":"portmap"})");
  const auto types = [this] {
    const auto loaded = LoadNetwork(files_.config());
    std::vector<std::string> out;
    for (const Json& plugin : loaded->network.plugins) out.push_back(TypeOf(plugin));
    return out;
  };
  EXPECT_THAT(types(), ElementsAre("bridge", "portmap", "bandwidth"));
  files_.Configure("10-pods.conflist", R"({"cniVersion":"1.0.0","name":"pods",
    "loadOnlyInlinedPlugins":true,"plugins":[{"type":"bridge"}]})");
  EXPECT_THAT(types(), ElementsAre("bridge"));
  files_.Configure("10-pods.conflist", kBridge);
  files_.Configure("pods/30-c.conf", R"({"mtu":1})");
  EXPECT_THAT(Loaded(), EndsWith("/pods/30-c.conf: missing 'type'"));
}

TEST(NetworkConfigTest, OnePluginIsANetworkOfOne) {
  const auto network =
      ParseSinglePlugin(R"({"cniVersion":"0.3.1","name":"pods","type":"ptp","ipMasq":true})");
  ASSERT_TRUE(network) << network.error().message();
  EXPECT_EQ(network->version, "0.3.1");
  ASSERT_EQ(network->plugins.size(), 1u);
  EXPECT_EQ(network->plugins[0].at("ipMasq"), true);
}

TEST(NetworkConfigTest, TheHighestVersionThatBothKnowIsFirst) {
  EXPECT_EQ(Versions(R"("cniVersion":"0.4.0")"), "0.4.0 ");
  EXPECT_EQ(Versions(R"("cniVersion":"0.4.0","cniVersions":["1.1.0","2.0.0","0.3.1"])"),
            "1.1.0 0.4.0 0.3.1 ");
  EXPECT_EQ(Versions(R"("cniVersions":["1.0.0"])"), "1.0.0 ");
  EXPECT_EQ(Versions(R"("cniVersion":"0.2.0")"),
            "cniVersion \"0.2.0\" is none of 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0");
  EXPECT_THAT(Versions(R"("disableGC":true)"), StartsWith("no cniVersion"));
}

TEST(NetworkConfigTest, FlagsMayBeTexts) {
  const auto network = ParseNetworkList(
      R"({"cniVersion":"1.1.0","name":"pods","disableCheck":"True","disableGC":false,
          "plugins":[{"type":"a","capabilities":{"portMappings":true,"dns":false}}]})");
  ASSERT_TRUE(network) << network.error().message();
  EXPECT_TRUE(network->disable_check);
  EXPECT_FALSE(network->disable_gc);
  EXPECT_TRUE(Declares(*network, "portMappings"));
  EXPECT_FALSE(Declares(*network, "dns"));
  EXPECT_FALSE(Declares(*network, "bandwidth"));
}

TEST(NetworkConfigTest, WhatCannotBeUsedIsToldByItsPlace) {
  const auto with = [](const std::string& rest) {
    return ListError(R"({"cniVersion":"1.0.0","name":"pods",)" + rest + "}");
  };
  EXPECT_EQ(with(R"("plugins":[{"type":"../sh"}])"), "type \"../sh\" cannot be a program's name");
  EXPECT_EQ(with(R"("plugins":[{"mtu":1}])"), "missing 'type'");
  EXPECT_EQ(with(R"("plugins":[{"type":7}])"), "type is no string");
  EXPECT_EQ(with(R"("plugins":["bridge"])"), "a plugin is no JSON object");
  EXPECT_EQ(with(R"("plugins":{"type":"bridge"})"), "plugins is no list");
  EXPECT_EQ(with(R"("plugins":[{"type":"a","capabilities":["dns"]}])"),
            "plugin a: capabilities is no map to true and false");
  EXPECT_EQ(with(R"("disableCheck":1,"plugins":[{"type":"a"}])"),
            "disableCheck is neither true nor false");
  EXPECT_EQ(ListError(R"({"cniVersion":"1.0.0","plugins":[{"type":"a"}]})"), "no name");
  EXPECT_EQ(ListError(R"({"cniVersion":"1.0.0","name":"a/b","plugins":[{"type":"a"}]})"),
            "name \"a/b\" is no name of a network");
  EXPECT_EQ(ListError("[]"), "no JSON object");
  EXPECT_THAT(ListError("{\"name\":"), HasSubstr("parse error"));
  EXPECT_EQ(ListError("{\"a\":" + std::string(64, '[')), "JSON nested deeper than 64");
  std::string many = R"({"type":"a"})";
  for (int i = 0; i < 32; ++i) many += R"(,{"type":"a"})";
  EXPECT_EQ(with("\"plugins\":[" + many + "]"), "more than 32 plugins");
}

}  // namespace
}  // namespace holdfast::agent::cni
