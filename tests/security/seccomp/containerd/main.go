// SPDX-License-Identifier: Apache-2.0

// Prints containerd's default seccomp profile as JSON: for no capability, and what each capability
// adds and takes away. compare.py says for which machine.
package main

import (
	"encoding/json"
	"os"
	"reflect"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

type profile struct {
	DefaultAction specs.LinuxSeccompAction `json:"defaultAction"`
	Architectures []specs.Arch             `json:"architectures"`
	Syscalls      []specs.LinuxSyscall     `json:"syscalls"`
	Capabilities  map[string]change        `json:"capabilities"`
}

type change struct {
	Added   []specs.LinuxSyscall `json:"added,omitempty"`
	Removed []specs.LinuxSyscall `json:"removed,omitempty"`
}

func with(bounding ...string) *specs.LinuxSeccomp {
	return seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: bounding}}})
}

func without(rules, others []specs.LinuxSyscall) []specs.LinuxSyscall {
	var left []specs.LinuxSyscall
	for _, rule := range rules {
		found := false
		for _, other := range others {
			found = found || reflect.DeepEqual(rule, other)
		}
		if !found {
			left = append(left, rule)
		}
	}
	return left
}

func main() {
	bare := with()
	out := profile{bare.DefaultAction, bare.Architectures, bare.Syscalls, map[string]change{}}
	for _, capability := range os.Args[1:] {
		rules := with(capability).Syscalls
		both := change{without(rules, bare.Syscalls), without(bare.Syscalls, rules)}
		if both.Added != nil || both.Removed != nil {
			out.Capabilities[capability] = both
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(out); err != nil {
		panic(err)
	}
}
