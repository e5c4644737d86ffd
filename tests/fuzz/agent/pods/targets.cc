// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/pods/targets.h"

#include <algorithm>
#include <string>

#include "agent/objects/kept_inputs.h"
#include "agent/pod/spec/env_file.h"
#include "agent/pod/spec/files.h"
#include "agent/probe/redirect.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzEnvFile(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  const auto value = agent::ValueInEnvFile(text, input.substr(0, end));
  if (!value) return;
  Require(value->size() <= text.size(), "a value is a part of the file", input);
  Require(!value->contains('\''), "it ends at the quote", input);
}

void FuzzProbeRedirect(std::string_view input) {
  const agent::HttpCheck first{
      .host = "10.0.0.2", .port = 8080, .path = "/a/b?q=1", .authority = "v.test"};
  agent::HttpCheck from = first;
  while (!input.empty()) {
    const size_t end = std::min(input.find('\n'), input.size());
    const auto next = agent::FollowRedirect(first, from, std::string(input.substr(0, end)));
    if (next) {
      Require(next->host == first.host && next->port != 0, "it stays with its host", input);
      Require(next->path.starts_with('/'), "it asks for a path", input);
      const std::string sent = next->path + agent::AuthorityOf(*next);
      Require(std::ranges::all_of(sent, [](char c) { return c > ' ' && c != 0x7f; }),
              "it is one line and two words", input);
      from = *next;
    }
    input.remove_prefix(std::min(end + 1, input.size()));
  }
}

void FuzzResolvConf(std::string_view input) {
  agent::NodeEnvironment node;
  node.host_ips = {"192.0.2.1", "2001:db8::1"};
  node.cluster_domain = "cluster.local";
  node.cluster_dns = {"10.96.0.10"};
  node.resolv_conf = input;
  (void)agent::ResolvConfFault("/etc/resolv.conf", node.resolv_conf, node.cluster_domain);
  for (const char* policy : {"Default", "ClusterFirst", "None"}) {
    agent::corev1::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_spec()->set_dnspolicy(policy);
    const agent::ResolvConf made = agent::ResolvConfFile(pod, node);
    Require(made.servers.size() <= 3 && made.searches.size() <= 32, "within resolvers' limits",
            input);
    agent::NodeEnvironment inner;
    inner.resolv_conf = made.text;
    pod.mutable_spec()->set_dnspolicy("Default");
    const agent::ResolvConf again = agent::ResolvConfFile(pod, inner);
    // (Of a search domain's dots each reading takes one.)
    Require(made.servers.empty() || again.servers == made.servers, "what is written is read",
            input);
    Require(again.options == made.options, "with its options", input);
  }
}

void FuzzKeptInputs(std::string_view input) {
  const auto kept = agent::DecodeKept(std::string(input));
  if (!kept) return;
  const std::string text = agent::EncodeKept(*kept);
  const auto again = agent::DecodeKept(text);
  Require(again.has_value() && agent::EncodeKept(*again) == text, "what is written is read", input);
}

}  // namespace holdfast::fuzz
