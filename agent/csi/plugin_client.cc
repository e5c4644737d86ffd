// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/plugin_client.h"

#include <chrono>

#include "agent/csi/grpc_call.h"
#include "pluginregistration/v1/api.grpc.pb.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kPluginLimit{5};

}  // namespace

Result<PluginInfo> AskPlugin(const std::string& socket, const std::atomic<bool>* cancelled) {
  const auto stub = pluginregistration::Registration::NewStub(ChannelTo(socket));
  ASSIGN_OR_RETURN(const auto said, CallPlugin<pluginregistration::PluginInfo>(
                                        kPluginLimit, cancelled, [&](auto* context, auto* queue) {
                                          return stub->AsyncGetInfo(context, {}, queue);
                                        }));
  const auto& versions = said.supported_versions();
  return PluginInfo{said.type(), said.name(), said.endpoint(), {versions.begin(), versions.end()}};
}

Result<void> TellPlugin(const std::string& socket, const std::string& problem,
                        const std::atomic<bool>* cancelled) {
  const auto stub = pluginregistration::Registration::NewStub(ChannelTo(socket));
  pluginregistration::RegistrationStatus status;
  status.set_plugin_registered(problem.empty());
  status.set_error(problem);
  RETURN_IF_ERROR(CallPlugin<pluginregistration::RegistrationStatusResponse>(
      kPluginLimit, cancelled, [&](auto* context, auto* queue) {
        return stub->AsyncNotifyRegistrationStatus(context, status, queue);
      }));
  return {};
}

}  // namespace holdfast::agent
