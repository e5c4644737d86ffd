// SPDX-License-Identifier: Apache-2.0
// Names and DNS in a pod: hostname, /etc/hosts, /etc/resolv.conf (feature-map 3.3).
#include "agent/pod/spec/files.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PodNamesTest : public ::testing::Test {
 protected:
  PodNamesTest() {
    node_.node_name = "n1";
    node_.host_ips = {"192.0.2.1"};
    node_.cluster_domain = "cluster.local";
    node_.resolv_conf = "nameserver 192.0.2.53\nsearch example.org\noptions ndots:2\n";
    node_.hosts = "127.0.0.1\tlocalhost\n192.0.2.1\tn1\n";
    SetPod("");
  }

  void SetPod(const std::string& spec_text) {
    pod_.Clear();
    pod_.mutable_metadata()->set_name("web-n1");
    pod_.mutable_metadata()->set_namespace_("default");
    pod_.mutable_metadata()->set_uid("u1");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec_text, pod_.mutable_spec()));
  }
  std::string ResolvText(const std::string& spec_text) {
    SetPod(spec_text);
    return ResolvConfFile(pod_, node_).text;
  }
  // "reason: message"
  std::vector<std::string> Warnings() {
    std::vector<std::string> out;
    for (const auto& [reason, message] : ResolvConfFile(pod_, node_).warnings) {
      out.push_back(StrCat(reason, ": ", message));
    }
    return out;
  }

  corev1::Pod pod_;
  NodeEnvironment node_;
};

TEST_F(PodNamesTest, HostsAreThePodsOwn) {
  SetPod(
      R"(hostname: "h" subdomain: "sub" hostAliases { ip: "192.0.2.9" hostnames: "x" hostnames: "y" })");
  const std::string hosts = HostsFile(pod_, node_, {"10.88.0.2", "fd00::2"});
  EXPECT_THAT(hosts, StartsWith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
  EXPECT_THAT(hosts, HasSubstr("10.88.0.2\th.sub.default.svc.cluster.local\th\n"
                               "fd00::2\th.sub.default.svc.cluster.local\th\n"));
  EXPECT_THAT(hosts, EndsWith("\n# Entries added by HostAliases.\n192.0.2.9\tx\ty\n"));
  EXPECT_EQ(PodHostname(pod_, node_), "h");
}

TEST_F(PodNamesTest, OnTheHostsNetworkTheHostsAreTheNodesAndTheAliases) {
  SetPod(R"(hostNetwork: true hostAliases { ip: "192.0.2.9" hostnames: "x" })");
  EXPECT_EQ(HostsFile(pod_, node_, {"192.0.2.1"}),
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n192.0.2.1\tn1\n"
            "\n# Entries added by HostAliases.\n192.0.2.9\tx\n");
}

TEST_F(PodNamesTest, HostnamesHaveSixtyThreeBytesAndNoDashAtTheEnd) {
  pod_.mutable_metadata()->set_name(std::string(62, 'a') + "-b");
  EXPECT_EQ(PodHostname(pod_, node_), std::string(62, 'a'));
  pod_.mutable_spec()->set_hostname("h");
  EXPECT_EQ(PodHostname(pod_, node_), "h");
  pod_.mutable_spec()->set_hostnameoverride(std::string(62, 'o') + ".o");
  EXPECT_EQ(PodHostname(pod_, node_), std::string(62, 'o'));
  pod_.mutable_spec()->set_subdomain("sub");
  EXPECT_THAT(HostsFile(pod_, node_, {"10.88.0.2"}),
              EndsWith("10.88.0.2\t" + std::string(62, 'o') + "\n"))
      << "an override has no domain";
}

TEST_F(PodNamesTest, TheFullNameIsTheKernelsWhereItIsAskedForAndNotTooLong) {
  SetPod(R"(hostname: "h" subdomain: "sub" setHostnameAsFQDN: true)");
  EXPECT_EQ(PodHostname(pod_, node_), "h.sub.default.svc.cluster.local");
  EXPECT_TRUE(CheckHostname(pod_, node_));
  const std::string longest(64 - std::string(".sub.default.svc.cluster.local").size(), 'h');
  pod_.mutable_spec()->set_hostname(longest);
  EXPECT_TRUE(CheckHostname(pod_, node_));
  pod_.mutable_spec()->set_hostname(longest + "h");
  const auto refused = CheckHostname(pod_, node_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            StrCat("failed to construct FQDN from pod hostname and cluster domain, FQDN ", longest,
                   "h.sub.default.svc.cluster.local is too long (64 characters is the max, 65 "
                   "characters requested)"));
  pod_.mutable_spec()->set_sethostnameasfqdn(false);
  EXPECT_TRUE(CheckHostname(pod_, node_));
  SetPod(R"(hostname: "h" setHostnameAsFQDN: true)");
  EXPECT_EQ(PodHostname(pod_, node_), "h") << "without a subdomain there is no full name";
}

TEST_F(PodNamesTest, ClusterFirstAsksTheClustersServers) {
  node_.cluster_dns = {"10.96.0.10"};
  const std::string cluster =
      "search default.svc.cluster.local svc.cluster.local cluster.local example.org\n"
      "nameserver 10.96.0.10\noptions ndots:5\n";
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "ClusterFirst")"), cluster);
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "ClusterFirstWithHostNet" hostNetwork: true)"), cluster);
  const std::string host = "search example.org\nnameserver 192.0.2.53\noptions ndots:2\n";
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "ClusterFirst" hostNetwork: true)"), host);
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "Default")"), host);
  node_.cluster_domain.clear();
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "ClusterFirst")"),
            "search example.org\nnameserver 10.96.0.10\noptions ndots:5\n");
}

TEST_F(PodNamesTest, WithoutTheClustersServersTheNodesAreAskedAndThatIsTold) {
  for (const char* policy : {"ClusterFirst", "ClusterFirstWithHostNet"}) {
    EXPECT_EQ(ResolvText(StrCat("dnsPolicy: \"", policy, "\"")),
              "search example.org\nnameserver 192.0.2.53\noptions ndots:2\n");
    EXPECT_EQ(
        Warnings(),
        std::vector<std::string>{
            "MissingClusterDNS: pod: \"web-n1_default(u1)\". kubelet does not have ClusterDNS "
            "IP configured and cannot create Pod using \"ClusterFirst\" policy. Falling back "
            "to \"Default\" policy."});
  }
}

TEST_F(PodNamesTest, DnsConfigIsAddedOnceAndItsOptionsCount) {
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "Default" dnsConfig {
              nameservers: "192.0.2.53" nameservers: "192.0.2.54"
              searches: "example.net" searches: "example.org" searches: "example.net"
              options { name: "ndots" value: "3" } options { name: "edns0" }
              options { name: "rotate" value: "" } })"),
            "search example.org example.net\nnameserver 192.0.2.53\nnameserver 192.0.2.54\n"
            "options ndots:3 edns0 rotate\n");
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "None" dnsConfig { nameservers: "192.0.2.1" })"),
            "nameserver 192.0.2.1\n");
  EXPECT_EQ(Warnings(), std::vector<std::string>{});
}

TEST_F(PodNamesTest, TheNodesFileIsReadAsAResolverReadsIt) {
  node_.resolv_conf =
      "# nameserver 192.0.2.1\n; nameserver 192.0.2.2\n nameserver 192.0.2.53 # a word more\n"
      "search first.example\nsearch example.org. . example.com\n"
      "options ndots:2 rotate\noptions ndots:4\n";
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "Default")"),
            "search example.org example.com\nnameserver 192.0.2.53\noptions rotate ndots:4\n");
}

TEST_F(PodNamesTest, ThreeServersAreKeptAndThatIsTold) {
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "None" dnsConfig { nameservers: "192.0.2.1"
              nameservers: "192.0.2.2" nameservers: "192.0.2.3" nameservers: "192.0.2.4" })"),
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n");
  EXPECT_EQ(Warnings(),
            std::vector<std::string>{
                "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been "
                "omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3"});
}

TEST_F(PodNamesTest, SearchesAreCutToWhatResolversTake) {
  const auto searches = [this](const std::vector<std::string>& names) {
    SetPod(R"(dnsPolicy: "None" dnsConfig { nameservers: "192.0.2.1" })");
    for (const auto& name : names) pod_.mutable_spec()->mutable_dnsconfig()->add_searches(name);
    return ResolvConfFile(pod_, node_).searches;
  };
  std::vector<std::string> names;
  for (int i = 0; i < 33; ++i) names.push_back(StrCat("s", i));
  EXPECT_EQ(searches(names), std::vector<std::string>(names.begin(), names.begin() + 32));
  EXPECT_THAT(Warnings().at(0),
              StartsWith("DNSConfigForming: Search Line limits were exceeded, some search paths "
                         "have been omitted, the applied search line is: s0 s1 s2 "));
  names.pop_back();
  EXPECT_EQ(searches(names), names);
  EXPECT_TRUE(Warnings().empty());

  EXPECT_EQ(searches({"a", std::string(254, 'x'), std::string(253, 'y')}),
            (std::vector<std::string>{"a", std::string(253, 'y')}));
  EXPECT_EQ(Warnings().size(), 1u);

  // Eight of 253 and one of 16 with eight blanks between them are 2048 characters.
  names.assign(8, "");
  for (size_t i = 0; i < names.size(); ++i) names[i] = std::string(253, static_cast<char>('a' + i));
  names.push_back(std::string(16, 'z'));
  EXPECT_EQ(searches(names), names);
  EXPECT_TRUE(Warnings().empty());
  names.back() += 'z';
  EXPECT_EQ(searches(names).size(), 8u);
  EXPECT_EQ(Warnings().size(), 1u);
}

TEST_F(PodNamesTest, WithoutAFileOfTheNodeNobodyIsAsked) {
  node_.resolv_conf.clear();
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "Default")"), "search .\nnameserver 127.0.0.1\n");
  node_.host_ips = {"192.0.2.1", "2001:db8::1"};
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "Default")"),
            "search .\nnameserver 127.0.0.1\nnameserver ::1\n");
  EXPECT_EQ(ResolvText(R"(dnsPolicy: "None" dnsConfig { nameservers: "192.0.2.1" })"),
            "nameserver 192.0.2.1\n");
}

TEST(ResolvConfFaultTest, WhatPodsCannotUseOfTheNodesFileIsSaid) {
  const auto fault = [](const std::vector<std::string>& names, const char* domain = "") {
    std::string text = "nameserver 192.0.2.53\nsearch";
    for (const std::string& name : names) text += " " + name;
    return ResolvConfFault("/r", text + "\n", domain);
  };
  std::vector<std::string> names;
  for (int i = 0; i < 32; ++i) names.push_back(StrCat("s", i));
  EXPECT_EQ(fault(names), "");
  EXPECT_EQ(fault(names, "cluster.local"),
            "Resolv.conf file '/r' contains search line consisting of more than 29 domains!");
  EXPECT_EQ(fault({"a", std::string(253, 'x')}), "");
  EXPECT_EQ(fault({"a", std::string(254, 'x')}),
            "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 "
            "chars!");
  EXPECT_EQ(fault(std::vector<std::string>(9, std::string(253, 'x'))),
            "Resolv.conf file '/r' contains search line which length is more than allowed 2048 "
            "chars!");
  EXPECT_EQ(ResolvConfFault("/r", "", "cluster.local"), "");
}

}  // namespace
}  // namespace holdfast::agent
