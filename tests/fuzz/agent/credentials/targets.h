// SPDX-License-Identifier: Apache-2.0
// What people, programs and the disk say about credentials.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzDockerConfig(std::string_view input);    // of a pull secret, in both forms
void FuzzProviderConfig(std::string_view input);  // CredentialProviderConfig
void FuzzProviderAnswer(std::string_view input);  // of a credential provider
void FuzzPulledRecord(std::string_view input);    // ImagePulledRecord and ImagePullIntent
void FuzzExecCredential(std::string_view input);  // of a kubeconfig's program, and its certificate

}  // namespace holdfast::fuzz
