// SPDX-License-Identifier: Apache-2.0
// Default values of one volume. Internal to the defaulting functions.
#pragma once

namespace k8s::io::api::core::v1 {
class Volume;
}  // namespace k8s::io::api::core::v1

namespace holdfast::agent::kube {

void DefaultVolume(::k8s::io::api::core::v1::Volume* volume);

}  // namespace holdfast::agent::kube
