// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tidegate/internal/lab/rig"
)

// What an instance of a lab or a test leaves when it and its owner are killed, the next start of a lab or a test removes:
// pins, state, lock, events and their lock, socket. It removes nothing of a living owner.
func TestKilledInstancesAreCleanedUp(t *testing.T) {
	w := newWorld(t)
	owner := exec.Command("sleep", "600")
	w.must(owner.Start())
	t.Cleanup(func() { _ = owner.Process.Kill() })
	o, err := rig.OwnerOf(owner.Process.Pid)
	w.must(err)
	in := *w.in
	in.Name = rig.InstPrefix + o.String() + "-x"
	in.Write("instance: " + in.Name + "\ninterfaces: [tg-server]\nsecret_file: secret\nevents: {file: events}\nservices: [{name: web, ports: [80], mode: always}]\n")
	p := in.Start()
	p.Kill()
	left := func() (names []string) {
		for _, pattern := range []string{"/run/tidegate/" + in.Name + "*", in.PinDir()} {
			found, _ := filepath.Glob(pattern)
			names = append(names, found...)
		}
		return names
	}
	before := left()
	for _, want := range []string{in.StatePath(), in.LockPath(), "/run/tidegate/" + in.Name + ".events", in.PinDir()} {
		if _, err := os.Stat(want); err != nil {
			t.Errorf("killed, it left no %s: the test asks nothing", want)
		}
	}
	if _, err := rig.Clean(); err != nil {
		t.Fatal(err)
	}
	if now := left(); len(now) != len(before) {
		t.Errorf("the owner lives, and of %q only %q is left", before, now)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if _, err := rig.Clean(); err != nil {
		t.Fatal(err)
	}
	if now := left(); len(now) != 0 {
		t.Errorf("the owner is dead, and there is still %q", now)
	}
}
