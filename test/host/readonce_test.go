// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// A start reads the configuration once, in every role: a file that is written meanwhile could otherwise make
// one start from two configurations.
func TestConfigurationIsReadOnce(t *testing.T) {
	w := newWorld(t)
	w.must(w.Server.Do(func() error {
		return exec.Command("ip", "link", "add", "tg-more", "type", "veth", "peer", "name", "tg-morep").Run()
	}))
	for _, key := range []string{"filter.key", "border.key"} {
		if _, output, err := w.tidegateRun("keygen", filepath.Join(w.dir, key)); err != nil {
			t.Fatal(output)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "bindings"), []byte("filter 198.51.100.0/24 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	public, output, err := w.tidegateRun("filter", "key", filepath.Join(w.dir, "border.key"))
	if err != nil {
		t.Fatal(output)
	}
	web := w.webConfig(webPort)
	two := strings.Replace(web, "[tg-server]", "[tg-server, tg-more]", 1)
	manager := fmt.Sprintf("instance: %s\nlisten: 127.0.0.1:4746\nbindings: bindings\n", w.Instance)
	for name, config := range map[string]string{
		"host":             web,
		"host auto":        web + "takeover: auto\n",
		"server":           web + "role: server\n",
		"server auto":      web + "role: server\ntakeover: auto\n",
		"server translate": web + "role: server\ntakeover: translate\n",
		"edge":             two + "role: edge\nforwarding: bridge\ninside: [tg-more]\n",
		"proxy":            two + "role: proxy\nforwarding: bridge\n",
		"patrol":           fmt.Sprintf("role: patrol\ninstance: %s\nforwarding: bridge\nports: [{interface: tg-server, side: upstream}, {interface: tg-more, side: customers}]\n", w.Instance),
		"filter manager":   "role: filter-manager\nown: [198.51.100.0/24]\n" + manager,
		"border manager": "role: border-manager\nidentity_file: border.key\nsecret_file: secret\n" + manager +
			fmt.Sprintf("patrols: [{name: p, address: \"127.0.0.1:4748\", key: %s, prefixes: [192.0.2.0/24]}]\n", strings.TrimSpace(public)),
	} {
		w.writeConfig(config)
		opens := harness.CountOpens(t, w.configPath)
		g := w.in.Launch()
		g.AwaitReady()
		if n := opens(); n != 1 {
			t.Errorf("%s: the configuration was opened %d times until it was ready, want once", name, n)
		}
		g.Kill()
		if name == "patrol" {
			_, _, _ = w.tidegateRun("off", "-c", w.configPath)
			continue
		}
		w.off("--now")
	}
}
