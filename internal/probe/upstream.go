// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"os"

	"github.com/cilium/ebpf/btf"

	"tidegate/internal/config"
)

// The requirements of the three roles of Terminus: a patrol is XDP on its ports, and managers are sockets and files. None adopts
// connections, so listeners, cgroups and the sysctls of TCP do not concern them.

// upstreamChecks checks everything that such a role needs.
func upstreamChecks(c *config.Config, privileged bool) (list []Check) {
	if len(c.Interfaces) > 0 {
		_, err := btf.LoadKernelSpec()
		list = append(list, btfCheck(err))
		list = append(list, programChecks(privileged)...)
		list = append(list, mountChecks()[0]) // bpffs
		list = append(list, interfaceChecks(c.Interfaces, c.XDPMode, c.Dispatcher, c.Role)...)
	}
	if c.SecretFile != "" {
		list = append(list, secretCheck(c.SecretFile))
	}
	files := func(names ...[2]string) {
		for _, f := range names {
			if f[1] != "" {
				list = append(list, fileCheck(f[0], f[1]))
			}
		}
	}
	signed := func(s *config.Signed) {
		files([2]string{"signed_bindings.anchors", s.Anchors}, [2]string{"signed_bindings.key", s.Key})
		for _, p := range s.Publish {
			files([2]string{"signed_bindings.publish", p})
		}
	}
	switch {
	case c.Patrol != nil:
		files([2]string{"identity_file", c.Patrol.Identity}, [2]string{"sources_file", c.Patrol.SourcesFile})
	case c.Border != nil:
		files([2]string{"identity_file", c.Border.Identity}, [2]string{"bindings", c.Border.Bindings})
		signed(&c.Border.Signed)
	case c.Filter != nil:
		files([2]string{"identity_file", c.Filter.Identity}, [2]string{"bindings", c.Filter.Bindings})
		signed(&c.Filter.Signed)
	}
	return list
}

// fileCheck reports whether a file that a field names can be read.
func fileCheck(field, path string) Check {
	f, err := os.Open(path)
	if err != nil {
		return Check{Name: field, Status: Fail, Found: path + ": " + firstLine(err), Means: "`tidegate run` refuses to start",
			Fix: cmp.Or(map[string]string{"identity_file": "run `tidegate keygen " + path + "`"}[field], "write the file, or correct the path")}
	}
	f.Close()
	return Check{Name: field, Status: OK, Found: path}
}

// nextSecretCheck checks the secret that is to replace the present one.
func nextSecretCheck(c *config.Config) []Check {
	if c.NextSecret.File == "" {
		return nil
	}
	check := secretCheck(c.NextSecret.File)
	check.Name = "next secret"
	return []Check{check}
}
