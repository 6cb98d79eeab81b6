// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// Managers bring each reload into force themselves: none is answered by somebody who only compares files, and called done.
func TestManagersReload(t *testing.T) {
	needRoot(t)
	self, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	for role, text := range map[string]string{
		"border-manager": "identity_file: identity\nsecret_file: secret\nlisten: 127.0.0.1:4747\nbindings: %[1]s/bindings\nrate: %[2]d\npatrols: [{name: p, address: 127.0.0.1:4748, key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, prefixes: [192.0.2.0/24]}]\n",
		"filter-manager": "listen: 127.0.0.1:4746\nbindings: %[1]s/bindings\nown: [203.0.113.0/24]\nfloor: %[2]d\n",
	} {
		t.Run(role, func(t *testing.T) {
			ns, err := rig.MakeNamespace(self, role[:6])
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Close()
			dir := t.TempDir()
			world.WriteSecret(t, dir)
			for name, content := range map[string]string{"bindings": "filter 203.0.113.0/24 127.0.0.1\n", "identity": strings.Repeat("6b", 32) + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := &world.Instance{T: t, NS: ns, Binary: binary, Name: fmt.Sprintf("tg%s-%s", self, role[:6]), Config: filepath.Join(dir, "tidegate.yaml")}
			head := fmt.Sprintf("role: %s\ninstance: %s\n", role, in.Name)
			in.Write(head + fmt.Sprintf(text, dir, 100))
			p := in.Start()
			for i := range 12 {
				p.Reload(head+fmt.Sprintf(text, dir, 200+i), "msg=reloaded")
			}
			p.Reload(head+fmt.Sprintf(text, dir, 300)+"nonsense: 1\n", "reload refused", "nonsense")
			if r := upstreamStatus(t, in).RefusedReload; r == nil || !strings.Contains(r.Error, "nonsense") {
				t.Errorf("status has %+v of the last reload", r)
			}
			p.Reload(head+fmt.Sprintf(text, dir, 300), "msg=reloaded")
			if r := upstreamStatus(t, in).RefusedReload; r != nil {
				t.Errorf("a reload that succeeded leaves %+v", r)
			}
			p.Stop()
		})
	}
}
