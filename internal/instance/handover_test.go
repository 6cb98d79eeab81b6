// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"os"
	"path/filepath"
	"testing"

	"tidegate/internal/plane"
)

// What root leaves of an instance belongs to the owner of the directories afterwards: files, and pins in each depth. What is another
// instance's, or somebody's, stays.
func TestHandOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const units, somebody = 4711, 4712
	opt := Options{StateDir: t.TempDir(), BPFFS: t.TempDir()}
	pins := plane.PinDir(opt.BPFFS, "web")
	if err := os.MkdirAll(filepath.Join(pins, "adopt"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{
		filepath.Join(opt.StateDir, "web.json"):        units,
		filepath.Join(opt.StateDir, "web.lock"):        units,
		filepath.Join(opt.StateDir, "web.somebody"):    somebody,
		filepath.Join(opt.StateDir, "other.json"):      0,
		filepath.Join(pins, "tg_keys"):                 units,
		filepath.Join(pins, "adopt", "tg_keys"):        units,
		filepath.Join(filepath.Dir(pins), "other-map"): 0,
	}
	for path := range want {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want[pins], want[filepath.Join(pins, "adopt")] = units, units
	for path, uid := range map[string]int{opt.StateDir: units, filepath.Dir(pins): units, filepath.Join(opt.StateDir, "web.somebody"): somebody} {
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := HandOver(opt, "web"); err != nil {
		t.Fatal(err)
	}
	for path, uid := range want {
		if of, err := owner(path); err != nil || of.Uid != uid {
			t.Errorf("%s: owner %v, %v, want %d", path, of, err, uid)
		}
	}
	// Root's own directories stay as they are.
	opt = Options{StateDir: t.TempDir(), BPFFS: t.TempDir()}
	path := filepath.Join(opt.StateDir, "web.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := HandOver(opt, "web"); err != nil {
		t.Fatal(err)
	}
	if of, err := owner(path); err != nil || of.Uid != 0 {
		t.Errorf("owner %v, %v", of, err)
	}
}
