// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"embed"
	"errors"
	"path/filepath"
	"strings"
)

// A Kubernetes node: rules as kube-proxy wrote them (rules/; the first lines of each file
// give the version and the service), before a pod behind a bridge.

//go:embed rules
var captured embed.FS

// nodePort is a node whose port leads to a pod.
func nodePort(files ...string) func(*Machine) error {
	return func(m *Machine) error {
		pod, err := m.container()
		if err != nil {
			return err
		}
		for _, file := range files {
			rules, err := captured.ReadFile("rules/" + file)
			if err != nil {
				return err
			}
			command := map[string][]string{".v4": {"iptables-restore"}, ".v6": {"ip6tables-restore"}, ".nft": {"nft", "-f", "-"}}[filepath.Ext(file)]
			if _, err := run(m.ctx, m.Server, strings.NewReader(string(rules)), command...); err != nil {
				return err
			}
		}
		return errors.Join(m.Serve(pod, ""), m.settled())
	}
}

func nodes() (all []Scenario) {
	for _, policy := range []string{"cluster", "local"} {
		about := map[string]string{"cluster": "", "local": ", externalTrafficPolicy: Local keeps the clients' addresses"}[policy]
		all = append(all,
			Scenario{Name: "iptables-" + policy, About: "a NodePort by kube-proxy's iptables" + about, How: Translated, Needs: []string{"iptables-restore=iptables"},
				Sources: map[string]bool{"local": true}[policy],
				Build:   nodePort("kube-proxy-iptables-"+policy+".v4", "kube-proxy-iptables-"+policy+".v6")},
			Scenario{Name: "nftables-" + policy, About: "a NodePort by kube-proxy's nftables" + about, How: Translated,
				Sources: map[string]bool{"local": true}[policy],
				Build:   nodePort("kube-proxy-nftables-" + policy + ".nft")})
	}
	return all
}
